#pragma once

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

/// A path between two neighbouring tiers. Bytes per second, seconds.
struct MachineLink {
  double in_bytes_per_s = 0;
  double out_bytes_per_s = 0;
  /// The most of both directions together while both have work; 0: they do not disturb each other.
  double both_bytes_per_s = 0;
  /// Delays a completion; the link itself goes on with the next page.
  double latency_s = 0;
  /// The latency occupies the link too.
  bool serial = false;
};

/// What a schedule is run on. Fastest tier first; link i joins tiers i and i + 1.
struct Machine {
  std::vector<MachineTier> tiers;
  std::vector<MachineLink> links;
};

}  // namespace sluice::sim
