#include <algorithm>
#include <utility>

#include "runtime/core/machine/core_impl.h"

namespace sluice::core {

/// The page's home, if homes are chosen. Else the frame that the page was mapped to: it may be
/// mapped to it still.
FrameIndex Core::Impl::TakeFrameFor(TierIndex tier, PageIndex index) {
  const Page& p = page(index);
  TierState& state = tiers_[tier];
  ++state.by_kind[static_cast<std::size_t>(p.kind)];
  state.homes.Come(index);
  const bool chosen = state.homes.chosen();
  return state.pool.Take(index, chosen ? state.homes.HomeOf(index) : p.was_mapped_to[tier]);
}

/// The page comes to the frame, or is there, and is wanted at its address; kNoFrame: its address is
/// not mapped any more.
void Core::Impl::SetMappedTo(PageIndex index, TierIndex tier, FrameIndex frame) {
  TierState& state = tiers_[tier];
  if (!state.keeps_mappings) return;
  const FrameIndex before = std::exchange(page(index).was_mapped_to[tier], frame);
  state.mapped.Move(index, before, frame);
  if (frame == kNoFrame) return;
  ++(before == kNoFrame ? state.mappings.first : state.mappings.again);
  if (before == frame) ++state.mappings.in_place;
}

/// Free frames are ordered by when a page comes back to them.
void Core::Impl::GiveFrame(TierIndex tier, FrameIndex frame, PageIndex index) {
  TierState& state = tiers_[tier];
  state.homes.Go(index);
  Position returns = state.homes.TakenAt(frame);
  if (!state.homes.chosen() && state.keeps_mappings) {
    for (const PageIndex page : state.mapped.PagesOf(frame)) {
      // A mapped page counts as one that returns, so that frames without one are taken first.
      returns = std::min({returns, kNever - 1, UseAt(pages_[page], tier)});
    }
  }
  state.pool.Give(frame, returns);
  --state.by_kind[static_cast<std::size_t>(pages_[index].kind)];
  if (state.starved) pump_again_ = true;
}

}  // namespace sluice::core
