#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/core/core.h"
#include "runtime/core/policies/paging_policy.h"
#include "runtime/sim/schedule/file_schedule.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/machine.h"
#include "runtime/sim/simulator/sim_observer.h"

namespace sluice::sim {

struct SimOptions {
  Machine machine;
  std::shared_ptr<core::PagingPolicy> policy;
  /// Number of iterations, at least two: the first one is recorded.
  int iterations = 3;
  /// Option of CoreOptions.
  std::uint32_t prefetch_ops = 12;
  std::uint32_t copies_in_flight_max = 16;
  std::uint32_t transit_frames = 2;
  double clean_share = 1.0 / 8;
  core::Objective objective = core::Objective::kTime;
  /// Whether an op is asked for as soon as the turn of those before it has come, rather than once
  /// they have ended. A program that asks one op ahead does so.
  bool ask_ahead = false;
  /// Function that is asked when a copy ends; none: the copy succeeds. Empty: all copies succeed.
  std::function<std::optional<core::FailureKind>(const core::StartCopy&)> fault;
  /// Function that may change the requests of an op in an iteration, within the pages that it has
  /// in the schedule and those that persist. Empty: they stay.
  std::function<void(std::uint64_t iteration, std::uint32_t op, std::vector<core::PageRequest>*)>
      alter;
  SimObserver* observer = nullptr;  ///< outlives the simulation
};

struct PathUse {
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
  double busy_in_s = 0;
  double busy_out_s = 0;
};

/// Use of all paths: the sums of bytes, and means of seconds, weighted with the paths' rates.
struct LinkUse : PathUse {
  std::vector<PathUse> paths;
};

struct TierUse {
  std::uint64_t budget_bytes = 0;
  std::uint64_t peak_bytes = 0;  ///< peak of the whole run
  /// Mappings of hbm, in the steady iterations together.
  core::MappingCounters mappings;
};

/// Results of a simulation. Times, stalls and bytes are per iteration in the steady state: the mean
/// over the last iterations, about half of them.
struct SimReport {
  double time_s = 0;
  /// Seconds of one iteration if no op ever waited for a page.
  double compute_s = 0;
  double stall_s = 0;
  /// Stall of each op of the last iteration: from the end of everything before it until it began.
  std::vector<double> op_stall_s;
  std::vector<double> iteration_s;
  std::vector<LinkUse> links;
  std::vector<TierUse> tiers;
  core::CoreCounters counters;  ///< counters of the whole run
  /// Seconds that making the plan took, by the clock on the wall; 0: there was none.
  double plan_s = 0;
  /// Number of the core's decisions in the whole run: copies that started and ended, pages that
  /// left without one, leases.
  std::uint64_t page_events = 0;
  std::uint64_t ops_failed = 0;  ///< failed ops of the whole run; 0 without faults
};

/// Runs the schedule on the machine in virtual time, with the core and the policy that a Runtime
/// has. Results are deterministic. Errors:
/// - InvalidArgument: an op needs more of a tier than there is (names it), or a machine that is
///   none
/// - ResourceExhausted: the tiers together are too small for the pages that live at once
absl::StatusOr<SimReport> Simulate(const PageLayout& layout, const SimOptions& options);

}  // namespace sluice::sim
