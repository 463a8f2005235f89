#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::testing {

/// A flag that is set once. Work before Set happens before a look that finds it set, and nothing
/// happens the other way round: ThreadSanitizer sees no order that CUDA does not give.
class FakeFlag {
 public:
  void Set();
  bool IsSet() const { return state_.load(std::memory_order_acquire) != 0; }
  void Wait() const;

 private:
  std::atomic<std::uint32_t> state_{0};
};

/// A gate for kernels. A kernel waits for the next opening after its launch.
class FakeGate {
 public:
  std::uint32_t NextOpening() const { return openings_.load(std::memory_order_relaxed) + 1; }
  void Wait(std::uint32_t opening) const;
  void Open();
  /// Opens the gate for every kernel, now and later.
  void OpenForever();

 private:
  static constexpr std::uint32_t kForever = 1U << 31;
  std::atomic<std::uint32_t> openings_{0};
};

/// Sleeps while the word has the value; may return early. It orders nothing.
void SleepOnWord(const std::atomic<std::uint32_t>& word, std::uint32_t value);
void WakeWord(const std::atomic<std::uint32_t>& word);

}  // namespace sluice::testing
