#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/core/types.h"

namespace sluice::engine {

/// Tasks in flight, and the search for those that take too long. Threads: the core thread only.
class TaskBook {
 public:
  using Clock = std::chrono::steady_clock;

  struct RunningTask {
    PageIndex page = 0;
    core::TierIndex source = core::kNoTier;  ///< kNoTier: not a copy
    core::TierIndex target = 0;
    Clock::time_point begun;
    bool reported = false;
  };

  /// `stall_seconds`: time after which a task takes too long; 0: no task ever does.
  explicit TaskBook(double stall_seconds)
      : limit_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(stall_seconds))) {}

  void Add(core::TaskNumber number, RunningTask task) { tasks_.emplace(number, task); }
  /// REQUIRES: the task was added and did not end.
  RunningTask End(core::TaskNumber number);
  bool empty() const { return tasks_.empty(); }
  Clock::duration limit() const { return limit_; }

  /// Time of the next look for tasks that take too long; max when no look is needed.
  Clock::time_point NextLook(Clock::time_point now) const;
  /// The tasks that passed their deadline and were not returned before.
  std::vector<RunningTask> TakeStalled(Clock::time_point now);

 private:
  const Clock::duration limit_;
  std::unordered_map<core::TaskNumber, RunningTask> tasks_;
};

}  // namespace sluice::engine
