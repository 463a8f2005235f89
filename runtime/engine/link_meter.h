#pragma once

#include <chrono>
#include <cstdint>

#include "base/mutex.h"
#include "runtime/engine/latency_histogram.h"
#include "sluice/stats.h"

namespace sluice::engine {

/// Measures one direction of one link. Threads: any.
class LinkMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// A copy was handed over; the time to pass to Succeeded or Failed.
  Clock::time_point Begin();
  /// Both return the time of completion.
  Clock::time_point Succeeded(Clock::time_point begun, std::uint64_t bytes);
  Clock::time_point Failed(Clock::time_point begun);

  DirectionStats Read() const;

 private:
  Clock::time_point End(Clock::time_point begun) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  DirectionStats stats_ ABSL_GUARDED_BY(mutex_);
  Clock::duration busy_ ABSL_GUARDED_BY(mutex_){};
  Clock::time_point busy_since_ ABSL_GUARDED_BY(mutex_);
  LatencyHistogram latency_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
