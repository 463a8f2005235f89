#pragma once

#include <chrono>
#include <vector>

#include "base/mutex.h"

namespace sluice::tools {

/// An interval of the steady clock.
struct TimeSpan {
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// Length of the union of many intervals. Overlapping ones are merged as they collect, so that
/// memory grows with the gaps only. Threads: any.
class BusyTime {
 public:
  void Add(const TimeSpan& span);
  /// Seconds of `window` during which at least one interval ran.
  double SecondsWithin(const TimeSpan& window);

 private:
  void Merge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  std::vector<TimeSpan> spans_ ABSL_GUARDED_BY(mutex_);
  std::size_t merge_at_ ABSL_GUARDED_BY(mutex_) = 1 << 16;
};

}  // namespace sluice::tools
