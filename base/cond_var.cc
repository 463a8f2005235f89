#include "base/cond_var.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/check.h"

namespace sluice::base {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex has 32 bits");
static_assert(sizeof(timespec::tv_sec) == sizeof(long), "SYS_futex takes the time as libc has it");

/// The deadline on the clock of steady_clock, which is CLOCK_MONOTONIC.
timespec ToTimespec(CondVar::Clock::time_point deadline) {
  constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
  const std::int64_t nanoseconds = std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count());
  return {.tv_sec = nanoseconds / kNanosecondsPerSecond,
          .tv_nsec = nanoseconds % kNanosecondsPerSecond};
}

/// Sleeps while `word` is `value`; false when `deadline` passed.
bool FutexWait(std::atomic<std::uint32_t>* word, std::uint32_t value, const timespec* deadline) {
  const long error = syscall(SYS_futex,
                             word,
                             FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
                             value,
                             deadline,
                             nullptr,
                             FUTEX_BITSET_MATCH_ANY);
  if (error == 0) return true;
  const bool woken = errno == EAGAIN || errno == EINTR;
  SLUICE_CHECK(woken || errno == ETIMEDOUT, "a futex takes the address and the time it is given");
  return woken;
}

void FutexWake(std::atomic<std::uint32_t>* word, int waiters_max) {
  syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, waiters_max, nullptr, nullptr, 0);
}

}  // namespace

// The analysis cannot follow a lock that is given back and taken again.
bool CondVar::Sleep(Mutex& mutex,
                    std::optional<Clock::time_point> deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  waiters_.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t seen = notifications_.load(std::memory_order_relaxed);
  mutex.Unlock();
  timespec until{};
  if (deadline.has_value()) until = ToTimespec(*deadline);
  const bool in_time = FutexWait(&notifications_, seen, deadline.has_value() ? &until : nullptr);
  mutex.Lock();
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return in_time;
}

void CondVar::NotifyAll() { Notify(INT_MAX); }

void CondVar::Notify(int waiters_max) {
  const bool some_wait = waiters_.load(std::memory_order_relaxed) > 0;
  notifications_.fetch_add(1, std::memory_order_relaxed);
  if (some_wait) FutexWake(&notifications_, waiters_max);
}

}  // namespace sluice::base
