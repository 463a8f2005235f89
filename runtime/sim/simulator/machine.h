#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/tier.h"

namespace sluice::sim {

/// One level of memory of a simulated machine.
struct MachineTier {
  TierKind kind = TierKind::kHbm;
  /// Budget; cut to whole pages. Of the last tier kUnlimited is as much as the schedule needs.
  std::uint64_t bytes = 0;

  static constexpr std::uint64_t kUnlimited = UINT64_MAX;
};

/// Between two neighbouring tiers. Bytes per second, seconds.
struct MachinePath {
  double in_bytes_per_s = 0;
  double out_bytes_per_s = 0;
  /// The most of both directions together while both have work; 0: they do not disturb each other.
  double both_bytes_per_s = 0;
  /// Delays a completion; the path itself goes on with the next page.
  double latency_s = 0;
  /// The latency occupies the path too.
  bool serial = false;
};

/// Between two neighbouring tiers: one path, or several that move different pages side by side.
struct MachineLink {
  std::vector<MachinePath> paths;  ///< 1 to kPathsMax

  static constexpr std::size_t kPathsMax = 16;
};

/// All paths of a link as one: the sums of their rates, the longest latency.
MachinePath Together(const MachineLink& link);

/// What a schedule is run on. Fastest tier first; link i joins tiers i and i + 1.
struct Machine {
  std::vector<MachineTier> tiers;
  std::vector<MachineLink> links;

  /// Whether each path of the link leads to a drive of its own, so that what went over one comes
  /// back over no other. Memory below a link is reached over all of them.
  bool LeadsToDrives(std::size_t link) const { return tiers[link + 1].kind == TierKind::kNvme; }
};

}  // namespace sluice::sim
