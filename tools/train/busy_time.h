#pragma once

#include <chrono>
#include <cstddef>
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
  /// What ended before `time` will not be asked for again.
  void ForgetBefore(std::chrono::steady_clock::time_point time);
  /// Intervals that are held.
  std::size_t spans();

 private:
  static constexpr std::size_t kMergeAtMin = 1 << 14;
  void Merge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  std::vector<TimeSpan> spans_ ABSL_GUARDED_BY(mutex_);
  std::size_t merge_at_ ABSL_GUARDED_BY(mutex_) = kMergeAtMin;
};

}  // namespace sluice::tools
