#include "runtime/sim/facts/group_facts.h"

#include <algorithm>
#include <vector>

namespace sluice::sim {
namespace {

/// Adds reuses by rising distance, so a share is reached at the first reuse that covers it.
void AddReuses(std::span<const Reuse> reuses, Grouping* grouping) {
  for (const Reuse& reuse : reuses) {
    grouping->groups[grouping->of_op[reuse.op]].reused_bytes += reuse.bytes;
  }
  std::vector<std::uint64_t> covered(grouping->groups.size(), 0);
  for (const Reuse& reuse : reuses) {
    const std::uint32_t index = grouping->of_op[reuse.op];
    OpGroup& group = grouping->groups[index];
    const auto all = static_cast<double>(group.reused_bytes);
    const auto before = static_cast<double>(covered[index]);
    const auto after = static_cast<double>(covered[index] += reuse.bytes);
    for (std::size_t i = 0; i < kGroupReuseShares.size(); ++i) {
      const double share = kGroupReuseShares[i] * all;
      if (before < share && after >= share) group.reuse_distances[i] = reuse.distance_bytes;
    }
  }
}

}  // namespace

void AddGroupFacts(std::span<const std::uint64_t> live,
                   std::span<const std::uint64_t> working_sets,
                   std::span<const Reuse> reuses,
                   Grouping* grouping) {
  for (std::size_t op = 0; op < grouping->of_op.size(); ++op) {
    OpGroup& group = grouping->groups[grouping->of_op[op]];
    group.peak_live_bytes = std::max(group.peak_live_bytes, live[op]);
    group.working_set_bytes = std::max(group.working_set_bytes, working_sets[op]);
  }
  AddReuses(reuses, grouping);
}

}  // namespace sluice::sim
