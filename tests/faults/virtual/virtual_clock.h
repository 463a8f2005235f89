#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace sluice::faults {

/// Time that passes only when a test asks for the next job. Jobs run in the order of their times,
/// and equal ones in the order of arrival. So every run is the same. Threads: one.
class VirtualClock {
 public:
  using Job = absl::AnyInvocable<void()>;

  std::chrono::microseconds now() const { return now_; }
  /// The virtual time as a time point, with which requests are stamped.
  std::chrono::steady_clock::time_point time() const {
    return std::chrono::steady_clock::time_point(now_);
  }

  /// Runs `job` when `pause` has passed; never inside of this call.
  void After(std::chrono::microseconds pause, Job job);
  /// Lets time pass until the next job and runs it; false when there is none.
  bool RunNext();
  /// Whether no job is waiting.
  bool idle() const { return events_.empty(); }

 private:
  struct Event {
    std::chrono::microseconds time;
    std::uint64_t sequence;
    Job job;
  };
  static bool ComesLater(const Event& a, const Event& b);

  std::chrono::microseconds now_{0};
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_;  ///< a heap, the next one first
};

}  // namespace sluice::faults
