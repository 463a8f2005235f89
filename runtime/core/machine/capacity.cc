// Capacity: which tier each new page is committed to (I6).
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "runtime/core/machine/core_impl.h"

namespace sluice::core {
namespace {

/// The share of a tier that pages which found no capacity below leave to those that did.
constexpr FrameIndex kWorkingShare = 8;

}  // namespace

/// Frames of the tier that pages may still be committed to. The last tier has spare ones, for new
/// generations that are being written while the old ones still count.
std::uint64_t Core::Impl::FramesLeft(TierIndex tier) const {
  const TierState& state = tiers_[tier];
  const std::uint64_t kept =
      tier == last_tier() ? options_.copies_in_flight_max : TransitFrames(tier) + state.reserved;
  const std::uint64_t taken = kept + state.committed;
  return state.pool.limit() > taken ? state.pool.limit() - taken : 0;
}

/// Whether pages can be committed to a tier below this one.
bool Core::Impl::HoldsPagesBelow(TierIndex tier) const {
  for (TierIndex t = static_cast<TierIndex>(tier + 1); t < tiers_.size(); ++t) {
    const FrameIndex spare = t == last_tier() ? options_.copies_in_flight_max : TransitFrames(t);
    if (tiers_[t].pool.frames_max() > spare) return true;
  }
  return false;
}

/// Frames that pages of lower tiers find here however many stay here for want of capacity below.
/// Without them such pages could be created, and never be leased.
FrameIndex Core::Impl::WorkingFrames(TierIndex tier) const {
  if (!HoldsPagesBelow(tier)) return 0;
  return std::max<FrameIndex>(1, tiers_[tier].pool.limit() / kWorkingShare);
}

/// Number of the segment's pages that could be committed to each tier. Pages that the last tier
/// does not hold stay in the one above it. They stay in no higher one: nothing would bring a page
/// back up that was leased below the tier it is committed to.
PagesByTier Core::Impl::CapacityFor(const CreateSegment& event) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max() / kTiersMax;
  PagesByTier capacity{};
  const TierIndex lowest = event.lowest;
  if (event.read_only) {
    SLUICE_CHECK(event.file_home && lowest < last_tier(), "read-only pages are those of a file");
    // One frame at a time serves them all.
    if (FramesLeft(lowest) > 0) capacity[lowest] = event.pages;
    return capacity;
  }
  capacity[lowest] = static_cast<std::uint32_t>(std::min(kMost, FramesLeft(lowest)));
  if (lowest < last_tier() || file_tier() < options_.capacity_from) return capacity;
  const TierIndex above = file_tier();
  const std::uint64_t left = FramesLeft(above);
  const std::uint64_t kept = std::min<std::uint64_t>(left, WorkingFrames(above));
  capacity[above] = static_cast<std::uint32_t>(std::min(kMost, left - kept));
  return capacity;
}

void Core::Impl::CheckCommitments() const {
  std::vector<std::uint64_t> committed(tiers_.size(), 0);
  for (const Page& p : pages_) {
    if (p.exists && !p.read_only) ++committed[p.lowest];
  }
  for (TierIndex t = 0; t < tiers_.size(); ++t) {
    const TierState& state = tiers_[t];
    SLUICE_CHECK(committed[t] == state.committed,
                 "I6: every page that may be written is committed to one tier");
    const std::uint64_t kept = t == last_tier() ? 0 : TransitFrames(t) + state.reserved;
    SLUICE_CHECK(committed[t] + kept <= state.pool.limit() || committed[t] == 0,
                 "I6: a tier has a frame for every page that is committed to it");
  }
}

}  // namespace sluice::core
