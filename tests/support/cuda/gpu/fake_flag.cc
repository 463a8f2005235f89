#include "tests/support/cuda/gpu/fake_flag.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace sluice::testing {

// The system calls themselves: std::atomic::wait counts its waiters in words that all flags share,
// which would put an order between streams that have none.
void SleepOnWord(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec limit{.tv_sec = 0, .tv_nsec = 50'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &limit, nullptr, 0);
}

void WakeWord(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void FakeFlag::Set() {
  state_.store(1, std::memory_order_release);
  WakeWord(state_);
}

void FakeFlag::Wait() const {
  while (!IsSet()) {
    SleepOnWord(state_, 0);
  }
}

void FakeGate::Wait(std::uint32_t opening) const {
  for (;;) {
    const std::uint32_t openings = openings_.load(std::memory_order_acquire);
    if (openings >= opening) {
      return;
    }
    SleepOnWord(openings_, openings);
  }
}

void FakeGate::Open() {
  openings_.fetch_add(1, std::memory_order_release);
  WakeWord(openings_);
}

void FakeGate::OpenForever() {
  openings_.store(kForever, std::memory_order_release);
  WakeWord(openings_);
}

}  // namespace sluice::testing
