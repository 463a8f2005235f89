#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace sluice::base {

/// A condition variable for Mutex. Waits may wake spuriously: wait in a loop. Threads that wait for
/// one that is told NotifyOne all wait for the same. Threads: any. Lifetime: that of the mutex. A
/// thread that wakes another, which may destroy both, notifies under the mutex.
///
/// std::condition_variable will not do: that of glibc before 2.41 loses a wake-up now and then when
/// several threads wait and processors are short. A thread then waits for ever
/// (sourceware.org/bugzilla, bug 25847). Here a futex holds the number of notifications. A wait
/// sleeps only while that number is the one read under the mutex (futex(2)).
class CondVar {
 public:
  using Clock = std::chrono::steady_clock;

  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { Sleep(mutex, std::nullopt); }
  /// Waits. Returns false when `deadline` passed without a wake-up.
  bool WaitUntil(Mutex& mutex, Clock::time_point deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return Sleep(mutex, deadline);
  }
  void NotifyOne() { Notify(1); }
  void NotifyAll();

 private:
  bool Sleep(Mutex& mutex, std::optional<Clock::time_point> deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Notify(int waiters_max);

  std::atomic<std::uint32_t> notifications_ = 0;
  /// Number of waiting threads. It grows under the mutex before the sleep, so that a notification
  /// of a later change under the mutex sees it.
  std::atomic<std::uint32_t> waiters_ = 0;
};

}  // namespace sluice::base
