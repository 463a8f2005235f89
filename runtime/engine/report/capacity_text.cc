#include "runtime/engine/report/capacity_text.h"

#include "fmt/format.h"

namespace sluice::engine {
namespace {

bool IsHbm(const TierSet& tiers, core::TierIndex tier) {
  return tiers.id(tier).kind == TierKind::kHbm;
}

std::string KeyOf(const TierSet& tiers, core::TierIndex tier) {
  return fmt::format("tiers.{}.bytes", ToString(tiers.id(tier).kind));
}

}  // namespace

absl::Status NoCapacityStatus(const core::SegmentRefused& refused,
                              const Segment::Parts& segment,
                              const TierSet& tiers) {
  std::string left;
  std::string keys;
  for (core::TierIndex t = segment.lowest + 1; t-- > 0;) {
    if (IsHbm(tiers, t) && t != segment.lowest) continue;
    const Bytes bytes = tiers.PagesToBytes(refused.available[t]);
    left += fmt::format(
        "{}{} in {}", left.empty() ? "" : " and ", ToString(bytes), ToString(tiers.id(t)));
    keys += (keys.empty() ? "" : " or ") + KeyOf(tiers, t);
  }
  return absl::ResourceExhaustedError(fmt::format(
      "tensor '{}'{} needs {}, and {} are left: {}; raise {}",
      segment.tensors.front()->spec.name,
      segment.tensors.size() > 1 ? fmt::format(" and {} others", segment.tensors.size() - 1)
                                 : std::string(),
      ToString(tiers.PagesToBytes(segment.pages)),
      ToString(tiers.PagesToBytes(refused.pages_available)),
      left,
      keys));
}

std::string UseText(core::TierIndex tier, const core::TierCounters& use, const TierSet& tiers) {
  const std::string name = ToString(tiers.id(tier));
  const bool lower = use.committed > 0 && !IsHbm(tiers, tier);
  return fmt::format(
      "of {} of {}, tensors that stay there hold {}, reservations {}, pages in transit {}, and "
      "leases and transfers may hold the rest: free tensors or reservations, end leases{}",
      ToString(tiers.PagesToBytes(use.frames)),
      name,
      ToString(tiers.PagesToBytes(use.committed)),
      ToString(tiers.PagesToBytes(use.reserved)),
      ToString(tiers.PagesToBytes(use.transit)),
      lower ? ", or make the runtime with larger tiers.nvme.bytes, where tensors may go lower"
            : "");
}

}  // namespace sluice::engine
