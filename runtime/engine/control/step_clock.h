#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "runtime/core/plan/plan.h"

namespace sluice::engine {

/// Times of one iteration as if nobody had waited for pages, in seconds from its begin.
struct IterationTimes {
  core::KeyIndex key = 0;
  std::vector<core::StepTime> steps;     ///< steps in the order of their requests
  std::vector<core::LaneIndex> lanes{};  ///< lane of each step
  double seconds = 0;                    ///< seconds to the begin of the next iteration
};

/// `times` in the order in which the steps are recorded. The first step of a lane is the first
/// recorded one of that lane, and so on. Returns none if a lane has another number of steps.
std::optional<IterationTimes> InRecordedOrder(const IterationTimes& times,
                                              std::span<const core::RecordedStep> steps);

/// Jitter between two iterations of equally many steps: the root of the mean square of the seconds
/// by which steps begin earlier or later. `before` is stretched to the length of `now` first.
double JitterBetween(const IterationTimes& before, const IterationTimes& now);

/// Separates the time that the program takes itself from its waits for pages. The clock stands
/// still while somebody waits for pages and nobody holds any. While one lane computes the clock
/// runs, though another lane may wait. Iterations with more than `steps_max` steps give no times.
/// Threads: externally synchronised.
class StepClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit StepClock(std::uint64_t steps_max = UINT64_MAX) : steps_max_(steps_max) {}

  /// Notes an event that the core was told, and its answer.
  void Observe(const core::Event& event, std::span<const core::Action> actions, TimePoint now);
  /// Times of the iteration that has ended with the last event, if one has.
  std::optional<IterationTimes> TakeIteration();

 private:
  struct TimedTicket {
    std::uint64_t leases = 0;  ///< leases not given back
    bool granted = false;
    std::uint64_t iteration = 0;  ///< number of the ticket's iteration; 0: none
    std::size_t step = 0;
  };

  void Advance(TimePoint now);
  void Begin(core::KeyIndex key);
  void End();
  void Add(const core::Acquire& event);
  void Remove(const core::Release& event);
  void Grant(core::TicketNumber number);
  void Forget(core::TicketNumber number);

  const std::uint64_t steps_max_;
  TimePoint last_{};
  double elapsed_seconds_ = 0;
  std::uint64_t waiting_ = 0;
  std::uint64_t holding_ = 0;
  std::unordered_map<core::TicketNumber, TimedTicket> tickets_;
  std::uint64_t iterations_ = 0;
  double begun_ = 0;  ///< clock at the begin of the running iteration
  std::optional<IterationTimes> running_;
  std::optional<IterationTimes> ended_;
};

}  // namespace sluice::engine
