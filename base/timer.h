#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::base {

/// Number and pauses of further attempts at something that failed. Pauses of 1, 4, 16, 64 and 256
/// ms make a third of a second. Most shortages of memory, or of the kernel's queues, do not last as
/// long.
struct Backoff {
  int attempts_max = 6;
  std::chrono::microseconds first_pause{1000};  ///< each later pause is four times as long

  /// The pause after attempt number `failed`, counted from 1.
  std::chrono::microseconds PauseAfter(int failed) const;
};

/// Runs jobs later, on one thread that starts with the first job. So a timer that is used for
/// errors alone costs nothing without them. Tests put another timer in its place. Threads: any.
/// Lifetime: every job has run before destruction.
class Timer {
 public:
  using Job = absl::AnyInvocable<void()>;

  /// `name`: name of the thread, at most 15 characters. `cpus`: its processors; empty: those of the
  /// thread that makes the timer, whichever thread needs it first.
  explicit Timer(std::string name, std::vector<int> cpus = {});
  virtual ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Runs `job`, which must not block, after `pause`. Returns false when there is no thread and
  /// none can be started: the job is not run.
  virtual bool After(std::chrono::microseconds pause, Job job);

 private:
  using Clock = std::chrono::steady_clock;

  bool EnsureThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  bool Next(Job* job);

  const std::string name_;
  const std::vector<int> cpus_;
  Mutex mutex_;
  CondVar changed_;
  std::multimap<Clock::time_point, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::base
