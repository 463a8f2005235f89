#include "io/common_cpu.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>

namespace sluice::io {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kLookEvery = std::chrono::milliseconds(100);
/// One of so many parts of a thread may be runnable.
constexpr int kPartsOfAThread = 2;
constexpr int kSurplusMax = 3;

cpu_set_t Only(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return set;
}

std::optional<nanoseconds> ReadRunnable(int schedstat_fd) {
  std::array<char, 96> text{};
  const ssize_t size = pread(schedstat_fd, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return RunnableTime({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace

std::optional<nanoseconds> RunnableTime(std::string_view schedstat) {
  std::array<std::int64_t, 3> numbers{};  // ran, waited, and how many times it was let run
  const char* at = schedstat.data();
  const char* const end = at + schedstat.size();
  for (std::int64_t& number : numbers) {
    while (at != end && *at == ' ') ++at;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return std::nullopt;
    at = rest;
  }
  if (numbers[2] == 0) return std::nullopt;  // a thread that has asked has run
  return nanoseconds(numbers[0] + numbers[1]);
}

bool RunnableJudge::IsTooMuch(nanoseconds total, TimePoint now) {
  const nanoseconds window = now - window_begin_;
  const int otherwise = window > kFullWindow ? 0 : -1;
  const int change = kPartsOfAThread * (total - total_) > window ? 1 : otherwise;
  total_ = total;
  window_begin_ = now;
  surplus_ = std::max(surplus_ + change, 0);
  return surplus_ >= kSurplusMax;
}

void CommonCpu::Join() {
  const std::optional<int> cpu = ChooseCpu();
  if (!cpu.has_value()) return;
  // Not under the lock: whoever gets no time on that processor would keep it.
  const std::optional<Thread> thread = Bind(*cpu);
  base::MutexLock lock(mutex_);
  if (thread.has_value()) threads_.push_back(*thread);
  if (!thread.has_value() || !together()) GoApart();
}

std::optional<int> CommonCpu::ChooseCpu() {
  base::MutexLock lock(mutex_);
  if (!together()) return std::nullopt;
  if (cpu_ < 0) cpu_ = sched_getcpu();
  return cpu_;
}

std::optional<CommonCpu::Thread> CommonCpu::Bind(int cpu) {
  Thread thread{.id = gettid()};
  if (cpu < 0 || cpu >= CPU_SETSIZE) return std::nullopt;
  if (sched_getaffinity(0, sizeof(thread.before), &thread.before) != 0) return std::nullopt;
  thread.schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (thread.schedstat_fd < 0) return std::nullopt;
  const cpu_set_t only = Only(cpu);
  const bool counts = ReadRunnable(thread.schedstat_fd).has_value();
  if (counts && sched_setaffinity(0, sizeof(only), &only) == 0) return thread;
  close(thread.schedstat_fd);
  return std::nullopt;
}

bool CommonCpu::Release(const Thread& thread, int cpu) {
  cpu_set_t now;
  const cpu_set_t only = Only(cpu);
  const bool known = sched_getaffinity(thread.id, sizeof(now), &now) == 0;
  // Somebody else has bound it since, or a cpuset has widened it: then the kernel still knows that
  // it was asked for `cpu` (Linux 6.2), and this makes it forget.
  const cpu_set_t& wanted = known && !CPU_EQUAL(&now, &only) ? now : thread.before;
  // The processor on which it is now is one of these, so this cannot fail for want of one.
  if (sched_setaffinity(thread.id, sizeof(wanted), &wanted) != 0) return false;
  close(thread.schedstat_fd);
  return true;
}

void CommonCpu::Leave() {
  base::MutexLock lock(mutex_);
  const auto is_caller = [id = gettid()](const Thread& thread) { return thread.id == id; };
  const auto found = std::find_if(threads_.begin(), threads_.end(), is_caller);
  if (found == threads_.end()) return;
  close(found->schedstat_fd);
  threads_.erase(found);
}

bool CommonCpu::IsTimeToLook() const {
  return together() && Clock::now() - looked_at_.load(std::memory_order_relaxed) >= kLookEvery;
}

void CommonCpu::Check() {
  // Whoever looks may be kept waiting in the middle of it by others on the processor.
  if (!IsTimeToLook() || looking_.test_and_set(std::memory_order_acquire)) return;
  if (IsTimeToLook()) Look();
  looking_.clear(std::memory_order_release);
}

void CommonCpu::Look() {
  base::MutexLock lock(mutex_);
  const std::optional<nanoseconds> total = TotalRunnable();
  const Clock::time_point now = Clock::now();
  looked_at_.store(now, std::memory_order_relaxed);
  if (!total.has_value() || judge_.IsTooMuch(*total, now)) GoApart();
}

std::optional<nanoseconds> CommonCpu::TotalRunnable() const {
  nanoseconds total{0};
  for (const Thread& thread : threads_) {
    const std::optional<nanoseconds> runnable = ReadRunnable(thread.schedstat_fd);
    if (!runnable.has_value()) return std::nullopt;
    total += *runnable;
  }
  return total;
}

void CommonCpu::GoApart() {
  std::erase_if(threads_, [cpu = cpu_](const Thread& thread) { return Release(thread, cpu); });
  apart_.store(threads_.empty(), std::memory_order_relaxed);
}

}  // namespace sluice::io
