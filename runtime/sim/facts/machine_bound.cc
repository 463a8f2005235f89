#include "runtime/sim/facts/machine_bound.h"

#include <algorithm>
#include <cstdint>

namespace sluice::sim {
namespace {

/// Ops and accesses that are walked through: per link for the windows, and for the volume.
constexpr std::uint64_t kWindowSteps = std::uint64_t{1} << 21;
constexpr std::uint64_t kVolumeSteps = std::uint64_t{1} << 20;
constexpr std::uint64_t kWindowEndsMax = 256;
constexpr std::uint64_t kIterationsMax = 64;

/// Both directions together reach `both` only while both have work; alone each keeps its rate. Some
/// paths may move in and others out, so that is said of each.
analysis::BoundLink BoundLinkOf(MachineLink link) {
  for (MachinePath& path : link.paths) {
    double& both = path.both_bytes_per_s;
    if (both > 0) both = std::max({both, path.in_bytes_per_s, path.out_bytes_per_s});
  }
  const MachinePath rates = Together(link);
  return {.in_bytes_per_s = rates.in_bytes_per_s,
          .out_bytes_per_s = rates.out_bytes_per_s,
          .both_bytes_per_s = rates.both_bytes_per_s};
}

std::uint64_t StepsOf(const Schedule& schedule) {
  std::uint64_t steps = 1 + schedule.ops.size();
  for (const ScheduleOp& op : schedule.ops) steps += op.accesses.size();
  return steps;
}

}  // namespace

analysis::TimeBoundOptions TimeBoundOptionsFor(const Machine& machine, const Schedule& schedule) {
  const std::uint64_t steps = StepsOf(schedule);
  analysis::TimeBoundOptions options;
  for (const MachineTier& tier : machine.tiers) {
    options.tiers.push_back(tier.kind);
    options.tier_bytes.push_back(tier.bytes);
  }
  for (const MachineLink& link : machine.links) options.links.push_back(BoundLinkOf(link));
  options.iterations_max =
      static_cast<int>(std::clamp<std::uint64_t>(kVolumeSteps / steps, 2, kIterationsMax));
  options.window_ends_max = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kWindowSteps / steps, 1, kWindowEndsMax));
  return options;
}

}  // namespace sluice::sim
