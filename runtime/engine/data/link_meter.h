#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "runtime/core/plan/plan.h"
#include "runtime/engine/report/latency_histogram.h"
#include "sluice/stats.h"

namespace sluice::engine {

/// Measures one direction of one link. Threads: any.
class LinkMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Notes that a copy was handed over. Returns the time to pass to Succeeded or Failed.
  Clock::time_point Begin();
  /// Notes the end of a copy. Both functions return the time of completion.
  Clock::time_point Succeeded(Clock::time_point begun, std::uint64_t bytes);
  Clock::time_point Failed(Clock::time_point begun);

  DirectionStats Read() const;
  /// Seconds that a page takes: the time in which at least one copy was under way, divided by the
  /// pages that crossed. Each look takes the mean of the old value and the new one. Fewer than
  /// kPagesToTell pages since the last look that told something change nothing. 0: not known.
  double PageSeconds(std::uint64_t page_bytes);

  static constexpr std::uint64_t kPagesToTell = 8;

 private:
  double BusySeconds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock::time_point End(Clock::time_point begun) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  DirectionStats stats_ ABSL_GUARDED_BY(mutex_);
  Clock::duration busy_ ABSL_GUARDED_BY(mutex_){};
  Clock::time_point busy_since_ ABSL_GUARDED_BY(mutex_);
  LatencyHistogram latency_ ABSL_GUARDED_BY(mutex_);
  /// Bytes at the last look that told something.
  std::uint64_t told_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  double told_busy_s_ ABSL_GUARDED_BY(mutex_) = 0;
  double page_s_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// A meter per link and direction; link i joins tiers i and i + 1. Threads: any.
class LinkMeters {
 public:
  LinkMeter& Of(core::TierIndex link, core::LinkDirection direction) {
    return meters_[link][static_cast<std::size_t>(direction)];
  }
  const LinkMeter& Of(core::TierIndex link, core::LinkDirection direction) const {
    return meters_[link][static_cast<std::size_t>(direction)];
  }
  /// Meter of reads from files that tensors have as their first home.
  LinkMeter& OfFiles() { return files_; }
  /// LinkMeter::PageSeconds of the first `links` links. The last link takes the speed of reads from
  /// files until its own is known. A direction that is not known is taken to be as fast as the
  /// other one. A link of which nothing is known is taken to be no hindrance.
  std::vector<core::PlanLink> PageSeconds(std::size_t links, std::uint64_t page_bytes);

  static constexpr double kNoHindranceBytesPerSecond = 1e10;

 private:
  std::array<std::array<LinkMeter, 2>, core::kTiersMax - 1> meters_;
  LinkMeter files_;
};

}  // namespace sluice::engine
