#include "io/common_cpu.h"

#include <algorithm>
#include <cstddef>
#include <ctime>

namespace sluice::io {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kWindow = milliseconds(100);
/// One of so many parts of a processor's time is theirs before they go apart.
constexpr int kShareMax = 3;
/// How often a thread asks the kernel for its time.
constexpr nanoseconds kCountEvery = milliseconds(10);

nanoseconds ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

bool BindTo(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

}  // namespace

CommonCpu::Thread::Thread(CommonCpu& common)
    : common_(common), counted_at_(Clock::now()), counted_(ThreadTime()) {
  int cpu = -1;
  const int here = sched_getcpu();
  if (common.cpu_.compare_exchange_strong(cpu, here)) cpu = here;
  bound_ = sched_getaffinity(0, sizeof(before_), &before_) == 0 && BindTo(cpu);
  if (!bound_) common.apart_.store(true, std::memory_order_relaxed);
}

void CommonCpu::Thread::Follow() {
  if (!bound_ || common_.together()) return;
  sched_setaffinity(0, sizeof(before_), &before_);
  bound_ = false;
}

void CommonCpu::Thread::Worked() {
  if (!bound_) return;
  const Clock::time_point now = Clock::now();
  if (now - counted_at_ < kCountEvery) return;
  const nanoseconds time = ThreadTime();
  common_.Count(time - counted_, counted_at_, now);
  counted_at_ = now;
  counted_ = time;
}

void CommonCpu::Count(nanoseconds busy, Clock::time_point since, Clock::time_point now) {
  base::MutexLock lock(mutex_);
  busy_ += busy;
  window_begin_ = std::min(window_begin_, since);
  const nanoseconds window = now - window_begin_;
  if (window < kWindow) return;
  if (kShareMax * busy_ > window) apart_.store(true, std::memory_order_relaxed);
  window_begin_ = now;
  busy_ = nanoseconds(0);
}

}  // namespace sluice::io
