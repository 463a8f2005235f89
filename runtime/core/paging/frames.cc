#include "runtime/core/paging/frames.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {

FrameIndex Frames::TransitFrames(TierIndex tier) const {
  return tier == 0 || tier == m_.last_tier() ? 0 : 2 * m_.options.transit_frames;
}

FrameIndex Frames::TransitReserve(TierIndex tier) const {
  const TierState& state = m_.tiers[tier];
  return TransitFrames(tier) - state.transit_used[0] - state.transit_used[1];
}

std::optional<FrameIndex> Frames::Take(TierIndex tier, const Claim& claim) {
  TierState& state = m_.tiers[tier];
  const bool goes_on = claim.mover != kNoPage && InTransit(m_.pages[claim.mover]);
  const bool overtakes = state.starved && claim.arrival > state.starved_arrival && !goes_on;
  if (overtakes) m_.hastening.NoteShortage(tier, claim);
  if (!overtakes && m_.eviction.EnsureRoom(tier, claim) && !NeededByHead(tier, claim)) {
    return TakeFor(tier, claim.page);
  }
  state.starved = true;
  state.starved_arrival = std::min(state.starved_arrival, claim.arrival);
  return std::nullopt;
}

/// Whether the head ticket needs the frames. While no op runs, the frames that its pages have yet
/// to pass are kept for them. A later ticket that took one would have to give it back, and so on
/// for ever (I8).
bool Frames::NeededByHead(TierIndex tier, const Claim& claim) const {
  if (!m_.holders.empty() || m_.pending.empty() || m_.pending.front()->arrival >= claim.arrival) {
    return false;
  }
  if (claim.mover != kNoPage && InTransit(m_.pages[claim.mover])) return false;  // moves go on (I9)
  const auto passes = [&](const Need& need) {
    const Page& p = m_.pages[need.request.page];
    if (need.ready || need.request.tier > tier || p.copies[tier].state != CopyState::kNone) {
      return false;
    }
    const std::optional<TierIndex> source = m_.copies.BestSource(p, need.request.tier);
    return source.has_value() && *source > tier;
  };
  const FrameIndex free = m_.tiers[tier].pool.free_count();
  const std::vector<Need>& needs = m_.pending.front()->needs;
  if (free <= TransitReserve(tier)) return true;
  FrameIndex spare = free - TransitReserve(tier);
  if (spare > needs.size()) return false;
  // Needs are looked at up to the number of frames, not all of thousands.
  return std::any_of(
      needs.begin(), needs.end(), [&](const Need& need) { return passes(need) && --spare == 0; });
}

bool Frames::TransitFree(TierIndex tier, LinkDirection direction) const {
  const TierState& state = m_.tiers[tier];
  const bool middle = tier > 0 && tier < m_.last_tier();
  return middle && state.pool.free_count() > 0 &&
         state.transit_used[static_cast<std::size_t>(direction)] < m_.options.transit_frames;
}

std::optional<FrameIndex> Frames::TakeTransit(TierIndex tier,
                                              LinkDirection direction,
                                              PageIndex index) {
  TierState& state = m_.tiers[tier];
  if (!TransitFree(tier, direction)) return std::nullopt;
  ++state.transit_used[static_cast<std::size_t>(direction)];
  PageCopy& copy = m_.page(index).copies[tier];
  copy.transit = true;
  copy.transit_direction = direction;
  return TakeFor(tier, index);
}

void Frames::EndTransit(const PageCopy& copy, TierIndex tier) {
  --m_.tiers[tier].transit_used[static_cast<std::size_t>(copy.transit_direction)];
}

bool Frames::Settle(PageIndex index, TierIndex tier, const Claim& claim) {
  if (!m_.eviction.EnsureRoom(tier, claim)) return false;
  PageCopy& copy = m_.page(index).copies[tier];
  EndTransit(copy, tier);
  copy.transit = false;
  std::erase(m_.transits, index);
  m_.facts.Update(index);
  return true;
}

void Frames::DropCopy(PageIndex index, TierIndex tier, Departure departure) {
  Page& p = m_.page(index);
  PageCopy& copy = p.copies[tier];
  SLUICE_CHECK(!m_.facts.PinnedAt(p, tier), "I3: a pinned frame is never dropped");
  SLUICE_CHECK(copy.readers == 0 && !copy.mapping, "I2: a frame in use by a task stays");
  if (copy.candidate) m_.facts.Withdraw(index, tier);
  m_.facts.TellDeparture(index, tier, departure);
  if (copy.transit) {
    EndTransit(copy, tier);
    std::erase(m_.transits, index);
  }
  m_.Emit(DropFrame{index, tier, copy.frame, copy.mapped});
  if (copy.mapped && !m_.tiers[tier].keeps_mappings) p.was_mapped_to[tier] = copy.frame;
  Give(tier, copy.frame, index);
  copy = PageCopy{};
  // A prefetch that has lost what it brought, or that nobody takes further up.
  const bool stuck =
      p.coming_tier < tier && p.tasks == 0 && p.copies[p.coming_tier].state == CopyState::kNone;
  if (p.prefetched_tier == tier || stuck) m_.goals.EndPrefetch(p, &m_.counters.prefetch_wasted);
}

void Frames::DropStale(PageIndex index) {
  Page& p = m_.page(index);
  if (p.stale_frame == kNoFrame) return;
  m_.Emit(DropFrame{index, m_.last_tier(), p.stale_frame, false});
  Give(m_.last_tier(), p.stale_frame, index);
  p.stale_frame = kNoFrame;
  p.stale_holds = false;
}

void Frames::DropHeld(PageIndex index) {
  Page& p = m_.page(index);
  if (p.held_tier == kNoTier) return;
  Give(p.held_tier, p.held_frame, index);
  p.held_tier = kNoTier;
  p.held_frame = kNoFrame;
  std::erase(m_.holding, index);
}

/// A page on its way up that has lost the frame it was to have waits where it came from (I9).
void Frames::LeaveTransit(PageIndex index) {
  const Page& p = m_.pages[index];
  for (TierIndex t = 0; t < m_.last_tier(); ++t) {
    const PageCopy& copy = p.copies[t];
    const bool idle = copy.state == CopyState::kValid && copy.readers == 0 && !copy.mapping;
    if (!copy.transit || !idle || !m_.facts.FreeToLeave(p, t)) continue;
    DropCopy(index, t);
    m_.tickets.Recheck(index);
    m_.facts.Update(index);
  }
}

bool Frames::RevokeHeld(TierIndex tier, const Claim& claim) {
  if (claim.purpose != Purpose::kDemand) return false;
  for (const PageIndex index : m_.holding) {
    const Page& p = m_.pages[index];
    if (p.held_tier != tier || m_.victims.WantedUpTo(p, tier, claim.arrival)) continue;
    if (index == claim.page || index == claim.mover) continue;
    DropHeld(index);
    LeaveTransit(index);
    return true;
  }
  return false;
}

FrameIndex Frames::TakeFor(TierIndex tier, PageIndex index) {
  const Page& p = m_.page(index);
  TierState& state = m_.tiers[tier];
  ++state.by_kind[static_cast<std::size_t>(p.kind)];
  const HomeFrames::Home home = state.homes.Come(index);
  const bool at_home = state.homes.chosen() && state.pool.IsFree(home.frame);
  return state.pool.Take(index, at_home ? home.frame : p.was_mapped_to[tier], home.leaves);
}

void Frames::SetMappedTo(PageIndex index, TierIndex tier, FrameIndex frame) {
  TierState& state = m_.tiers[tier];
  if (!state.keeps_mappings) return;
  const FrameIndex before = std::exchange(m_.page(index).was_mapped_to[tier], frame);
  state.mapped.Move(index, before, frame);
  if (frame == kNoFrame) return;
  ++(before == kNoFrame ? state.mappings.first : state.mappings.again);
  if (before == frame) ++state.mappings.in_place;
}

void Frames::Give(TierIndex tier, FrameIndex frame, PageIndex index) {
  TierState& state = m_.tiers[tier];
  state.homes.Go(index);
  Position returns = state.homes.TakenAt(frame);
  if (!state.homes.chosen() && state.keeps_mappings) {
    for (const PageIndex page : state.mapped.PagesOf(frame)) {
      // A mapped page counts as one that returns, so that frames without one are taken first.
      returns = std::min({returns, kNever - 1, m_.facts.UseAt(m_.pages[page], tier)});
    }
  }
  state.pool.Give(frame, returns);
  --state.by_kind[static_cast<std::size_t>(m_.pages[index].kind)];
  if (state.starved) m_.pump_again = true;
}

}  // namespace sluice::core
