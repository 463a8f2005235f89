#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/tier.h"

namespace sluice::sim {

/// One level of memory of a simulated machine.
struct MachineTier {
  TierKind kind = TierKind::kHbm;
  /// Budget, cut to whole pages. kUnlimited for the last tier is as much as the schedule needs.
  std::uint64_t bytes = 0;

  static constexpr std::uint64_t kUnlimited = UINT64_MAX;
};

/// A path between two neighbouring tiers. Rates are bytes per second, times are seconds.
struct MachinePath {
  double in_bytes_per_s = 0;
  double out_bytes_per_s = 0;
  /// Most bytes per second of both directions together while both have work; 0: they do not disturb
  /// each other.
  double both_bytes_per_s = 0;
  /// Delay of a completion. The path itself goes on with the next page.
  double latency_s = 0;
  /// Whether the latency occupies the path, too.
  bool serial = false;
};

/// A link between two neighbouring tiers: one path, or several that move different pages side by
/// side.
struct MachineLink {
  std::vector<MachinePath> paths;  ///< 1 to kPathsMax

  static constexpr std::size_t kPathsMax = 16;
};

/// One path that stands for all paths of a link: the sums of their rates, the longest latency.
MachinePath Together(const MachineLink& link);

/// A machine to run a schedule on. The fastest tier is first; link i joins tiers i and i + 1.
struct Machine {
  std::vector<MachineTier> tiers;
  std::vector<MachineLink> links;

  /// Whether each path of the link leads to a drive of its own. A page then comes back over the
  /// path that it went by. Memory below a link is reached over all paths.
  bool LeadsToDrives(std::size_t link) const { return tiers[link + 1].kind == TierKind::kNvme; }
};

}  // namespace sluice::sim
