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

/// How long a thread has been on a processor or has waited to be. `schedstat`: what the kernel says
/// in /proc/PID/task/TID/schedstat, "ran_ns waited_ns slices". Nothing where it does not count.
std::optional<std::chrono::nanoseconds> RunnableTime(std::string_view schedstat);

/// Judges whether threads have more to do than fits on one processor, or too little of it: they ran
/// or waited to run for more than half of the time of one thread, in three windows more than not. A
/// wait counts in the window in which it ends, however long it was. A window longer than
/// kFullWindow has a pause in it and counts only when it was too much, so that short bursts of work
/// add up. Threads: externally synchronised.
class RunnableJudge {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds kFullWindow = std::chrono::milliseconds(200);

  explicit RunnableJudge(TimePoint start) : window_begin_(start) {}

  /// A window ends at `now`; `total` is the RunnableTime of all threads until then.
  bool IsTooMuch(std::chrono::nanoseconds total, TimePoint now);

 private:
  TimePoint window_begin_;
  std::chrono::nanoseconds total_{0};  ///< until then
  int surplus_ = 0;                    ///< of windows that were too much over full ones
};

/// Keeps the threads of an engine on one processor for as long as they do little but wait, since a
/// wake that crosses to another one costs more (measured in docs/results/store.md). When the judge
/// says that they have too much to do there, or others have, they run where they did before, for
/// good. Threads: any.
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

  /// False once they run as before, or where one of them cannot be bound or looked at. True for as
  /// long as the kernel does not let one of them go back.
  bool together() const { return !apart_.load(std::memory_order_relaxed); }

  /// Looks at the threads, at most once in 100 ms. For them after each piece of work, and for
  /// whoever gives them work: those that get no time cannot look themselves.
  void Check();

 private:
  struct Thread {
    pid_t id = 0;
    cpu_set_t before;  ///< the processors that it may run on where it is not bound
    int schedstat_fd = -1;
  };

  void Join();
  void Leave();
  /// Where all are; nothing once they are apart.
  std::optional<int> ChooseCpu();
  /// Binds the caller. Nothing where that, or looking at it, is refused.
  static std::optional<Thread> Bind(int cpu);
  /// Lets it run as before where `cpu` binds it, and closes its file. False when the kernel
  /// refuses.
  static bool Release(const Thread& thread, int cpu);
  bool IsTimeToLook() const;
  void Look();
  void GoApart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Of all threads until now; nothing where one cannot be looked at.
  std::optional<std::chrono::nanoseconds> TotalRunnable() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> apart_{false};
  std::atomic<Clock::time_point> looked_at_ = Clock::now();
  std::atomic_flag looking_;
  base::Mutex mutex_;
  int cpu_ ABSL_GUARDED_BY(mutex_) = -1;                 ///< none yet
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);  ///< that are bound
  RunnableJudge judge_ ABSL_GUARDED_BY(mutex_){Clock::now()};
};

}  // namespace sluice::io
