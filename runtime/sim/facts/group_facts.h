#pragma once

#include <cstdint>
#include <span>

#include "runtime/sim/facts/op_groups.h"
#include "runtime/sim/facts/reuse_distance.h"

namespace sluice::sim {

/// Fills in the facts of a group that its ops one by one do not give. `live` and `working_sets` are
/// bytes by op, `reuses` those of the schedule, by rising distance.
void AddGroupFacts(std::span<const std::uint64_t> live,
                   std::span<const std::uint64_t> working_sets,
                   std::span<const Reuse> reuses,
                   Grouping* grouping);

}  // namespace sluice::sim
