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

/// One iteration as it would have gone if nobody had waited for pages; in seconds from its begin.
struct IterationTimes {
  core::KeyIndex key = 0;
  std::vector<core::StepTime> steps;     ///< steps in the order of their requests
  std::vector<core::LaneIndex> lanes{};  ///< lane of each step
  double seconds = 0;                    ///< seconds to the begin of the next iteration
};

/// The same in the order in which the steps are recorded: the first of a lane is the first that is
/// recorded of it, and so on. None when a lane has had other than that many.
std::optional<IterationTimes> InRecordedOrder(const IterationTimes& times,
                                              std::span<const core::RecordedStep> steps);

/// Seconds by which steps begin earlier or later in one of two iterations of as many steps than in
/// the other, once both are stretched to the length of the second: the root of the mean square.
double JitterBetween(const IterationTimes& before, const IterationTimes& now);

/// Tells what time the program takes itself from what it waits for pages. Its clock stands still
/// while somebody waits for pages and nobody holds any; while one lane computes it runs, though
/// another one may wait. Of an iteration with more than `steps_max` steps it tells nothing.
/// Threads: externally synchronised.
class StepClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit StepClock(std::uint64_t steps_max = UINT64_MAX) : steps_max_(steps_max) {}

  /// What the core was told, and what it answered.
  void Observe(const core::Event& event, std::span<const core::Action> actions, TimePoint now);
  /// The iteration that has ended with the last event, if one has.
  std::optional<IterationTimes> TakeIteration();

 private:
  struct TimedTicket {
    std::uint64_t leases = 0;  ///< not given back
    bool granted = false;
    std::uint64_t iteration = 0;  ///< 0: none
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
  double seconds_ = 0;  ///< seconds that the clock has run
  std::uint64_t waiting_ = 0;
  std::uint64_t holding_ = 0;
  std::unordered_map<core::TicketNumber, TimedTicket> tickets_;
  std::uint64_t iterations_ = 0;
  double begun_ = 0;  ///< the running iteration
  std::optional<IterationTimes> running_;
  std::optional<IterationTimes> ended_;
};

}  // namespace sluice::engine
