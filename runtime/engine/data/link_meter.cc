#include "runtime/engine/data/link_meter.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::engine {

LinkMeter::Clock::time_point LinkMeter::Begin() {
  base::MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (stats_.queue_depth == 0) busy_since_ = now;
  ++stats_.queue_depth;
  stats_.queue_depth_max = std::max(stats_.queue_depth_max, stats_.queue_depth);
  return now;
}

LinkMeter::Clock::time_point LinkMeter::End(Clock::time_point begun) {
  SLUICE_CHECK(stats_.queue_depth > 0, "a copy ends once");
  const Clock::time_point now = Clock::now();
  --stats_.queue_depth;
  if (stats_.queue_depth == 0) busy_ += now - busy_since_;
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(now - begun);
  latency_.Add(static_cast<std::uint64_t>(spent.count()));
  return now;
}

LinkMeter::Clock::time_point LinkMeter::Succeeded(Clock::time_point begun, std::uint64_t bytes) {
  base::MutexLock lock(mutex_);
  stats_.bytes += bytes;
  ++stats_.copies;
  return End(begun);
}

LinkMeter::Clock::time_point LinkMeter::Failed(Clock::time_point begun) {
  base::MutexLock lock(mutex_);
  ++stats_.failed;
  return End(begun);
}

DirectionStats LinkMeter::Read() const {
  base::MutexLock lock(mutex_);
  DirectionStats stats = stats_;
  stats.busy_seconds = BusySeconds();
  stats.latency = latency_.Summary();
  return stats;
}

double LinkMeter::BusySeconds() const {
  Clock::duration busy = busy_;
  if (stats_.queue_depth > 0) busy += Clock::now() - busy_since_;
  return std::chrono::duration<double>(busy).count();
}

double LinkMeter::PageSeconds(std::uint64_t page_bytes) {
  base::MutexLock lock(mutex_);
  const std::uint64_t bytes = stats_.bytes - told_bytes_;
  const double busy_s = BusySeconds() - told_busy_s_;
  if (bytes < kPagesToTell * page_bytes || busy_s <= 0) return page_s_;
  const double page_s = busy_s * static_cast<double>(page_bytes) / static_cast<double>(bytes);
  page_s_ = page_s_ > 0 ? (page_s_ + page_s) / 2 : page_s;
  told_bytes_ = stats_.bytes;
  told_busy_s_ += busy_s;
  return page_s_;
}

std::vector<core::PlanLink> LinkMeters::PageSeconds(std::size_t links, std::uint64_t page_bytes) {
  std::vector<core::PlanLink> seconds;
  for (std::size_t i = 0; i < links; ++i) {
    double in_s = meters_[i][0].PageSeconds(page_bytes);
    double out_s = meters_[i][1].PageSeconds(page_bytes);
    if (in_s <= 0 && i + 1 == links) in_s = files_.PageSeconds(page_bytes);
    if (in_s <= 0) in_s = out_s;
    if (in_s <= 0) in_s = static_cast<double>(page_bytes) / kNoHindranceBytesPerSecond;
    if (out_s <= 0) out_s = in_s;
    seconds.push_back({.in_s = in_s, .out_s = out_s});
  }
  return seconds;
}

}  // namespace sluice::engine
