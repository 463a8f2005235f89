#include "runtime/engine/link_meter.h"

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
  Clock::duration busy = busy_;
  if (stats.queue_depth > 0) busy += Clock::now() - busy_since_;
  stats.busy_seconds = std::chrono::duration<double>(busy).count();
  stats.latency = latency_.Summary();
  return stats;
}

}  // namespace sluice::engine
