#include "runtime/core/machine/capacity.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

/// The share of a tier that pages which found no capacity below leave to those that did.
constexpr FrameIndex kWorkingShare = 8;

}  // namespace

void Capacity::On(const CreateSegment& event) {
  const PagesByTier places = CapacityFor(event);
  const std::uint64_t available = std::accumulate(places.begin(), places.end(), std::uint64_t{0});
  if (event.pages > available) {
    m_.Emit(SegmentRefused{event.segment, static_cast<std::uint32_t>(available), places});
    return;
  }
  if (m_.pages.size() < event.first_page + event.pages)
    m_.pages.resize(event.first_page + event.pages);
  PagesByTier committed{};
  PageIndex index = event.first_page;
  const PageIndex end = event.first_page + event.pages;
  if (event.read_only) {
    while (index < end) MakePage(index++, event.lowest, event);
    m_.Emit(SegmentCreated{event.segment, committed});
    return;
  }
  for (int tier = event.lowest; tier >= 0; --tier) {
    const auto t = static_cast<TierIndex>(tier);
    committed[t] = std::min(places[t], end - index);
    m_.tiers[t].committed += committed[t];
    for (std::uint32_t i = 0; i < committed[t]; ++i) MakePage(index++, t, event);
  }
  m_.Emit(SegmentCreated{event.segment, committed});
}

void Capacity::MakePage(PageIndex index, TierIndex lowest, const CreateSegment& event) {
  SLUICE_CHECK(!m_.pages[index].exists, "a new segment's page indices are free");
  Page fresh;
  fresh.exists = true;
  fresh.content = event.file_home;
  fresh.file_home = event.file_home;
  fresh.reproducible = event.reproducible;
  fresh.read_only = event.read_only;
  fresh.lowest = lowest;
  fresh.kind = event.kind;
  fresh.segment = event.segment;
  m_.pages[index] = std::move(fresh);
}

FrameIndex Capacity::OpFramesMax(TierIndex tier) const {
  const TierState& state = m_.tiers[tier];
  const FrameIndex limit =
      state.budget_target.has_value() ? *state.budget_target : state.pool.limit();
  const FrameIndex kept = m_.frames.TransitFrames(tier) + state.reserved;
  return limit > kept ? limit - kept : 0;
}

/// Frames of the tier that pages may still be committed to. The last tier has spare ones, for new
/// generations that are being written while the old ones still count.
std::uint64_t Capacity::FramesLeft(TierIndex tier) const {
  const TierState& state = m_.tiers[tier];
  const std::uint64_t kept = tier == m_.last_tier()
                                 ? m_.options.copies_in_flight_max
                                 : m_.frames.TransitFrames(tier) + state.reserved;
  const std::uint64_t taken = kept + state.committed;
  return state.pool.limit() > taken ? state.pool.limit() - taken : 0;
}

bool Capacity::HoldsPagesBelow(TierIndex tier) const {
  for (TierIndex t = static_cast<TierIndex>(tier + 1); t < m_.tiers.size(); ++t) {
    const FrameIndex spare =
        t == m_.last_tier() ? m_.options.copies_in_flight_max : m_.frames.TransitFrames(t);
    if (m_.tiers[t].pool.frames_max() > spare) return true;
  }
  return false;
}

/// Frames that pages of lower tiers find here however many stay here for want of capacity below.
/// Without them such pages could be created, and never be leased.
FrameIndex Capacity::WorkingFrames(TierIndex tier) const {
  if (!HoldsPagesBelow(tier)) return 0;
  return std::max<FrameIndex>(1, m_.tiers[tier].pool.limit() / kWorkingShare);
}

/// Number of the segment's pages that could be committed to each tier. Pages that the last tier
/// does not hold stay in the one above it. They stay in no higher one: nothing would bring a page
/// back up that was leased below the tier it is committed to.
PagesByTier Capacity::CapacityFor(const CreateSegment& event) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max() / kTiersMax;
  PagesByTier capacity{};
  const TierIndex lowest = event.lowest;
  if (event.read_only) {
    SLUICE_CHECK(event.file_home && lowest < m_.last_tier(), "read-only pages are those of a file");
    // One frame at a time serves them all.
    if (FramesLeft(lowest) > 0) capacity[lowest] = event.pages;
    return capacity;
  }
  capacity[lowest] = static_cast<std::uint32_t>(std::min(kMost, FramesLeft(lowest)));
  if (lowest < m_.last_tier() || m_.file_tier() < m_.options.capacity_from) return capacity;
  const TierIndex above = m_.file_tier();
  const std::uint64_t left = FramesLeft(above);
  const std::uint64_t kept = std::min<std::uint64_t>(left, WorkingFrames(above));
  capacity[above] = static_cast<std::uint32_t>(std::min(kMost, left - kept));
  return capacity;
}

void Capacity::CheckCommitments() const {
  std::vector<std::uint64_t> committed(m_.tiers.size(), 0);
  std::vector<FrameIndex> written(m_.tiers.size(), 0);
  for (const Page& p : m_.pages) {
    if (p.exists && !p.read_only) ++committed[p.lowest];
    if (p.exists && p.written()) ++written[p.lowest];
  }
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    const TierState& state = m_.tiers[t];
    SLUICE_CHECK(committed[t] == state.committed,
                 "I6: every page that may be written is committed to one tier");
    SLUICE_CHECK(written[t] == state.written, "I6: pages with content of their own are counted");
    const std::uint64_t kept =
        t == m_.last_tier() ? 0 : m_.frames.TransitFrames(t) + state.reserved;
    SLUICE_CHECK(committed[t] + kept <= state.pool.limit() || committed[t] == 0,
                 "I6: a tier has a frame for every page that is committed to it");
  }
}

}  // namespace sluice::core
