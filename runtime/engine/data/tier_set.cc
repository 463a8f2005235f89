#include "runtime/engine/data/tier_set.h"

#include <utility>

#include "fmt/format.h"

namespace sluice::engine {

TierSet::TierSet(std::uint64_t page_bytes,
                 std::vector<Tier> tiers,
                 device::Device* device,
                 io::PageStore* store)
    : page_bytes_(page_bytes), tiers_(std::move(tiers)), device_(device), store_(store) {}

std::optional<core::TierIndex> TierSet::IndexOf(TierId id) const {
  for (core::TierIndex i = 0; i < size(); ++i) {
    if (tiers_[i].id == id) return i;
  }
  return std::nullopt;
}

absl::StatusOr<core::TierIndex> TierSet::LeasableIndexOf(TierId id) const {
  const std::optional<core::TierIndex> index = IndexOf(id);
  if (index && is_leasable(*index)) return *index;
  std::string leasable;
  for (core::TierIndex i = 0; i < size(); ++i) {
    if (is_leasable(i)) leasable += (leasable.empty() ? "" : ", ") + ToString(tiers_[i].id);
  }
  return absl::InvalidArgumentError(
      fmt::format("{} {}; this runtime leases in {}",
                  ToString(id),
                  index && exists(*index) ? "only holds what is not in use" : "does not exist",
                  leasable));
}

core::TierIndex TierSet::Fastest() const {
  core::TierIndex index = 0;
  while (!exists(index)) ++index;
  return index;
}

std::optional<core::TierIndex> TierSet::LowestFor(TierKind lowest) const {
  std::optional<core::TierIndex> found;
  for (core::TierIndex i = 0; i < size(); ++i) {
    if (tiers_[i].id.kind <= lowest) found = i;
  }
  return found;
}

std::string TierSet::LinkName(core::TierIndex upper) const {
  return fmt::format("{}-{}",
                     ToString(tiers_[upper].id.kind),
                     ToString(tiers_[static_cast<std::size_t>(upper) + 1].id.kind));
}

}  // namespace sluice::engine
