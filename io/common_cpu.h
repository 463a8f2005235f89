#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>

#include "base/mutex.h"

namespace sluice::io {

/// Keeps the threads of an engine on one processor for as long as they do little but wait: a wake
/// that crosses to another processor is over a quarter of what a request costs (measured in
/// docs/results/store.md). Once they get more than a third of that processor's time they run
/// anywhere, for good (the threads of two drives may share one processor). Threads: any.
class CommonCpu {
 public:
  using Clock = std::chrono::steady_clock;

  /// One of the threads: made by it, before it begins to work, and used by it alone.
  class Thread {
   public:
    /// Goes where the others are; the first of them stays where it is.
    explicit Thread(CommonCpu& common);
    /// Before each piece of work: goes anywhere when the others do.
    void Follow();
    /// After each piece of work.
    void Worked();

   private:
    CommonCpu& common_;
    cpu_set_t before_;  ///< the processors that it may run on where it is not bound
    bool bound_ = false;
    Clock::time_point counted_at_;
    std::chrono::nanoseconds counted_;  ///< of its time on a processor
  };

  /// False once they run anywhere, or where one of them cannot be bound.
  bool together() const { return !apart_.load(std::memory_order_relaxed); }

  /// A thread was on a processor for `busy` between `since` and `now`.
  void Count(std::chrono::nanoseconds busy, Clock::time_point since, Clock::time_point now);

 private:
  std::atomic<int> cpu_{-1};  ///< none yet
  std::atomic<bool> apart_{false};
  base::Mutex mutex_;
  /// Of the first time that is counted.
  Clock::time_point window_begin_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  std::chrono::nanoseconds busy_ ABSL_GUARDED_BY(mutex_){0};  ///< of all threads, since then
};

}  // namespace sluice::io
