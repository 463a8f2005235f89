#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

/// Names of the tiers:
///
///   sluice::Access access{.tensor = weights, .tier = sluice::kDram0};
///   auto tier = sluice::ParseTierId("hbm0");       // "hbm" is hbm0, too
///   if (tier.ok()) access.tier = *tier;
///   Print(sluice::ToString(sluice::kNvme0));       // "nvme0"
///   Print(sluice::ToString(access.tier->kind));    // "hbm"

namespace sluice {

/// The kinds of memory, fastest first.
enum class TierKind : std::uint8_t { kHbm, kDram, kNvme };

/// A tier: a kind and an index. Today every index is 0; dram0 spans all NUMA nodes.
struct TierId {
  TierKind kind = TierKind::kDram;
  std::uint8_t index = 0;
  friend constexpr auto operator<=>(const TierId&, const TierId&) = default;
};

inline constexpr TierId kHbm0{TierKind::kHbm, 0};
inline constexpr TierId kDram0{TierKind::kDram, 0};
inline constexpr TierId kNvme0{TierKind::kNvme, 0};

/// "hbm", "dram", "nvme"; "unknown" for a value that is no enumerator.
std::string_view ToString(TierKind kind);
/// "hbm0".
std::string ToString(TierId tier);
/// Parses "hbm0" or "hbm" (index 0). Errors: InvalidArgument that names the known kinds.
absl::StatusOr<TierId> ParseTierId(std::string_view text);

}  // namespace sluice
