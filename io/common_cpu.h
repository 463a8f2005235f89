#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace sluice::io {

/// Keeps the threads of an engine on one processor for as long as they do little but wait, since a
/// wake that crosses to another one costs more (measured in docs/results/store.md). Once half a
/// thread of them, on average, is on that processor or waits to be (they compute, or others are
/// there), they run where they did before, for good. Threads: any.
class CommonCpu {
 public:
  using Clock = std::chrono::steady_clock;

  /// One of the threads, for as long as it works: made and destroyed by it.
  class Member {
   public:
    /// Goes where the others are; the first of them stays where it is.
    explicit Member(CommonCpu& common) : common_(common) { common.Join(); }
    ~Member() { common_.Leave(); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    CommonCpu& common_;
  };

  CommonCpu() = default;
  CommonCpu(const CommonCpu&) = delete;
  CommonCpu& operator=(const CommonCpu&) = delete;

  /// False once they run as before, or where one of them cannot be bound or looked at.
  bool together() const { return !apart_.load(std::memory_order_relaxed); }

  /// Looks at the threads, at most once in 100 ms. For whoever gives them work, one of them or not:
  /// those that get no time on the processor cannot look themselves.
  void Check();

 private:
  struct Thread {
    pid_t id = 0;
    cpu_set_t before;  ///< the processors that it may run on where it is not bound
    int schedstat_fd = -1;
    std::chrono::nanoseconds runnable{0};  ///< its RunnableTime when it was last looked at
  };

  void Join();
  void Leave();
  std::optional<Thread> Bind() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GoApart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(const Thread& thread) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Of all threads since it was last asked; nothing where one cannot be looked at.
  std::optional<std::chrono::nanoseconds> TakeRunnable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> apart_{false};
  std::atomic<Clock::time_point> checked_at_ = Clock::now();
  base::Mutex mutex_;
  int cpu_ ABSL_GUARDED_BY(mutex_) = -1;  ///< none yet
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
};

/// How long a thread has been on a processor or has waited to be. `schedstat`: what the kernel says
/// in /proc/PID/task/TID/schedstat, "ran_ns waited_ns slices". Nothing where it does not count.
std::optional<std::chrono::nanoseconds> RunnableTime(std::string_view schedstat);

}  // namespace sluice::io
