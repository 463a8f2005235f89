#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/core/machine/core_impl.h"

namespace sluice::core {

/// Frames that residency never gets.
FrameIndex Core::Impl::TransitFrames(TierIndex tier) const {
  return tier == 0 || tier == last_tier() ? 0 : 2 * options_.transit_frames;
}

/// Transit frames that are not in use.
FrameIndex Core::Impl::TransitReserve(TierIndex tier) const {
  const TierState& state = tiers_[tier];
  return TransitFrames(tier) - state.transit_used[0] - state.transit_used[1];
}

/// A frame for residency, making room if need be. Nobody overtakes an earlier claim that went away
/// empty-handed (I8), but for a page in a transit frame that the earlier one may need (I9).
std::optional<FrameIndex> Core::Impl::TakeFrame(TierIndex tier, const Claim& claim) {
  TierState& state = tiers_[tier];
  const bool goes_on = claim.mover != kNoPage && InTransit(pages_[claim.mover]);
  const bool overtakes = state.starved && claim.arrival > state.starved_arrival && !goes_on;
  if (overtakes) NoteShortage(tier, claim);
  if (!overtakes && EnsureRoom(tier, claim) && !NeededByHead(tier, claim)) {
    return TakeFrameFor(tier, claim.page);
  }
  state.starved = true;
  state.starved_arrival = std::min(state.starved_arrival, claim.arrival);
  return std::nullopt;
}

/// Whether the head ticket needs the frames. While no op runs, the frames that its pages have yet
/// to pass are kept for them. A later ticket that took one would have to give it back, and so on
/// for ever (I8).
bool Core::Impl::NeededByHead(TierIndex tier, const Claim& claim) const {
  if (!holders_.empty() || pending_.empty() || pending_.front()->arrival >= claim.arrival) {
    return false;
  }
  if (claim.mover != kNoPage && InTransit(pages_[claim.mover])) return false;  // moves go on (I9)
  const auto passes = [&](const Need& need) {
    const Page& p = pages_[need.request.page];
    if (need.ready || need.request.tier > tier || p.copies[tier].state != CopyState::kNone) {
      return false;
    }
    const std::optional<TierIndex> source = BestSource(p, need.request.tier);
    return source.has_value() && *source > tier;
  };
  const FrameIndex free = tiers_[tier].pool.free_count();
  const std::vector<Need>& needs = pending_.front()->needs;
  if (free <= TransitReserve(tier)) return true;
  FrameIndex spare = free - TransitReserve(tier);
  if (spare > needs.size()) return false;
  // Needs are looked at up to the number of frames, not all of thousands.
  return std::any_of(
      needs.begin(), needs.end(), [&](const Need& need) { return passes(need) && --spare == 0; });
}

bool Core::Impl::TransitFree(TierIndex tier, LinkDirection direction) const {
  const TierState& state = tiers_[tier];
  const bool middle = tier > 0 && tier < last_tier();
  return middle && state.pool.free_count() > 0 &&
         state.transit_used[static_cast<std::size_t>(direction)] < options_.transit_frames;
}

std::optional<FrameIndex> Core::Impl::TakeTransit(TierIndex tier,
                                                  LinkDirection direction,
                                                  PageIndex index) {
  TierState& state = tiers_[tier];
  if (!TransitFree(tier, direction)) return std::nullopt;
  ++state.transit_used[static_cast<std::size_t>(direction)];
  PageCopy& copy = page(index).copies[tier];
  copy.transit = true;
  copy.transit_direction = direction;
  return TakeFrameFor(tier, index);
}

/// Turns a transit copy into a resident one.
bool Core::Impl::Settle(PageIndex index, TierIndex tier, const Claim& claim) {
  TierState& state = tiers_[tier];
  if (!EnsureRoom(tier, claim)) return false;
  PageCopy& copy = page(index).copies[tier];
  --state.transit_used[static_cast<std::size_t>(copy.transit_direction)];
  copy.transit = false;
  std::erase(transits_, index);
  UpdateFacts(index);
  return true;
}

void Core::Impl::DropCopy(PageIndex index, TierIndex tier, Departure departure) {
  Page& p = page(index);
  PageCopy& copy = p.copies[tier];
  SLUICE_CHECK(!PinnedAt(p, tier), "I3: a pinned frame is never dropped");
  SLUICE_CHECK(copy.readers == 0 && !copy.mapping, "I2: a frame in use by a task stays");
  if (copy.candidate) {
    options_.policy->OnRemove(tier, index);
    if (copy.told_free) --tiers_[tier].candidates_free;
    NoteLossless(index, tier, false);
  }
  TellDeparture(index, tier, departure);
  if (copy.transit) {
    --tiers_[tier].transit_used[static_cast<std::size_t>(copy.transit_direction)];
    std::erase(transits_, index);
  }
  Emit(DropFrame{index, tier, copy.frame, copy.mapped});
  if (copy.mapped && !tiers_[tier].keeps_mappings) p.was_mapped_to[tier] = copy.frame;
  GiveFrame(tier, copy.frame, index);
  copy = PageCopy{};
  // A prefetch that has lost what it brought, or that nobody takes further up.
  const bool stuck =
      p.coming_tier < tier && p.tasks == 0 && p.copies[p.coming_tier].state == CopyState::kNone;
  if (p.prefetched_tier == tier || stuck) EndPrefetch(p, &counters_.prefetch_wasted);
}

void Core::Impl::DropStale(PageIndex index) {
  Page& p = page(index);
  if (p.stale_frame == kNoFrame) return;
  Emit(DropFrame{index, last_tier(), p.stale_frame, false});
  GiveFrame(last_tier(), p.stale_frame, index);
  p.stale_frame = kNoFrame;
  p.stale_holds = false;
}

void Core::Impl::DropHeld(PageIndex index) {
  Page& p = page(index);
  if (p.held_tier == kNoTier) return;
  GiveFrame(p.held_tier, p.held_frame, index);
  p.held_tier = kNoTier;
  p.held_frame = kNoFrame;
  std::erase(holding_, index);
}

/// A page on its way up that has lost the frame it was to have waits where it came from (I9).
void Core::Impl::LeaveTransit(PageIndex index) {
  const Page& p = pages_[index];
  for (TierIndex t = 0; t < last_tier(); ++t) {
    const PageCopy& copy = p.copies[t];
    const bool idle = copy.state == CopyState::kValid && copy.readers == 0 && !copy.mapping;
    if (!copy.transit || !idle || !FreeToLeave(p, t)) continue;
    DropCopy(index, t);
    Recheck(index);
    UpdateFacts(index);
  }
}

/// Takes a frame back that is held for a page on its way up, when no ticket up to the claim's waits
/// for that page: lookahead never keeps a ticket from what it needs (I8).
bool Core::Impl::RevokeHeld(TierIndex tier, const Claim& claim) {
  if (claim.purpose != Purpose::kDemand) return false;
  for (const PageIndex index : holding_) {
    const Page& p = pages_[index];
    if (p.held_tier != tier || WantedUpTo(p, tier, claim.arrival)) continue;
    if (index == claim.page || index == claim.mover) continue;
    DropHeld(index);
    LeaveTransit(index);
    return true;
  }
  return false;
}

bool Core::Impl::PinnedAt(const Page& p, TierIndex tier) const {
  return p.pins > 0 && std::any_of(p.queue.begin(), p.queue.end(), [&](const Need* need) {
           return need->ticket->granted && need->request.tier == tier;
         });
}

/// Whether nothing uses the page's frame in `tier`.
bool Core::Impl::IsIdle(const Page& p, TierIndex tier) const {
  const PageCopy& copy = p.copies[tier];
  const bool there = copy.state == CopyState::kValid || copy.state == CopyState::kPlaced;
  if (Dies(p) || p.write_pinned) return false;
  return there && copy.readers == 0 && !copy.mapping && !copy.transit && !PinnedAt(p, tier);
}

bool Core::Impl::IsCandidate(const Page& p, TierIndex tier) const {
  return ((p.head_wants >> tier) & 1) == 0 && IsIdle(p, tier);
}

/// Whether the page leaves the tier without a write, now or later: its content is dead, or valid in
/// a lower tier. A doomed copy below counts only while there is nowhere else to go.
bool Core::Impl::FreeToLeave(const Page& p, TierIndex tier) const {
  if (p.copies[tier].state == CopyState::kPlaced || !p.content || p.file_home) return true;
  const bool fenced = tiers_[last_tier()].fenced;
  return std::any_of(p.copies.begin() + tier + 1, p.copies.end(), [&](const PageCopy& copy) {
    return copy.state == CopyState::kValid && (!copy.doomed || fenced);
  });
}

/// Whether nothing is lost with the copy. If the only other copy is further up, that one has to
/// come back later, over a link that may be the slower one. So this is the last resort.
bool Core::Impl::MayDrop(const Page& p, TierIndex tier) const {
  if (FreeToLeave(p, tier)) return true;
  return std::any_of(p.copies.begin(), p.copies.begin() + tier, [](const PageCopy& copy) {
    return copy.state == CopyState::kValid;
  });
}

/// Position at which the page's copy in this very tier is needed next.
Position Core::Impl::UseAt(const Page& p, TierIndex tier) const {
  if (p.next_use == kNever && p.hint_tier == tier) return p.hinted;
  if (p.next_use == kNever || p.next_tier == tier) return p.next_use;
  if (p.next_tier > tier) return kNever;  // needed below: the sooner it leaves the better
  for (TierIndex t = 0; t < tier; ++t) {
    if (p.copies[t].state == CopyState::kValid && !p.copies[t].leaving) return kNever;
  }
  return p.next_use;
}

/// UseAt, as far as the policy may know it.
Position Core::Impl::UseKnown(const Page& p, TierIndex tier) const {
  return online_ ? kNever : UseAt(p, tier);
}

void Core::Impl::UpdateFacts(PageIndex index) {
  for (TierIndex t = 0; t < last_tier(); ++t) TellPolicy(index, t);
}

PageFacts Core::Impl::FactsOf(PageIndex index, TierIndex tier) const {
  const Page& p = pages_[index];
  const bool overwritten =
      UseKnown(p, tier) != kNever && p.next_use != kNever && p.next_mode == PageMode::kOverwrite;
  return {.page = index,
          .kind = p.kind,
          .next_use = UseKnown(p, tier),
          .free_to_leave = FreeToLeave(p, tier),
          .free_to_return = !p.content || overwritten};
}

void Core::Impl::TellPolicy(PageIndex index, TierIndex tier) {
  const Page& p = pages_[index];
  PageCopy& copy = page(index).copies[tier];
  const bool candidate = IsCandidate(p, tier);
  if (!candidate && !copy.candidate) return;
  const PageFacts facts = FactsOf(index, tier);
  TierState& state = tiers_[tier];
  if (copy.candidate && copy.told_free) --state.candidates_free;
  if (candidate && facts.free_to_leave) ++state.candidates_free;
  const bool lossless = candidate && (facts.free_to_leave || MayDrop(p, tier));
  NoteLossless(index, tier, lossless);
  const bool changed = facts.next_use != copy.told_use || facts.free_to_leave != copy.told_free ||
                       facts.free_to_return != copy.told_return;
  if (candidate && copy.candidate && !changed) return;
  ++changes_;
  if (candidate && !copy.candidate) {
    copy.known = true;
    options_.policy->OnInsert(tier, facts);
    if (state.starved) pump_again_ = true;
  } else if (!candidate) {
    options_.policy->OnRemove(tier, index);
  } else {
    options_.policy->OnChange(tier, facts);
  }
  copy.candidate = candidate;
  copy.told_free = facts.free_to_leave;
  copy.told_return = facts.free_to_return;
  copy.told_use = facts.next_use;
}

void Core::Impl::NoteLossless(PageIndex index, TierIndex tier, bool lossless) {
  PageCopy& copy = page(index).copies[tier];
  if (copy.lossless == lossless) return;
  ++changes_;
  copy.lossless = lossless;
  std::vector<PageIndex>& pages = tiers_[tier].lossless;
  if (lossless) {
    copy.lossless_place = static_cast<std::uint32_t>(pages.size());
    pages.push_back(index);
    return;
  }
  pages[copy.lossless_place] = pages.back();
  page(pages.back()).copies[tier].lossless_place = copy.lossless_place;
  pages.pop_back();
}

/// One reference to the page in `tier`: a lease, or the source of a way up.
void Core::Impl::TellAccess(PageIndex index, TierIndex tier) {
  PageCopy& copy = page(index).copies[tier];
  if (tier == last_tier() || copy.transit) return;
  copy.known = true;
  options_.policy->OnAccess(tier, index);
}

void Core::Impl::TellDeparture(PageIndex index, TierIndex tier, Departure departure) {
  PageCopy& copy = page(index).copies[tier];
  if (!std::exchange(copy.known, false)) return;
  options_.policy->OnLeave(tier, index, departure);
}

void Core::Impl::TellFreed(PageIndex index) {
  for (TierIndex t = 0; t < last_tier(); ++t) {
    options_.policy->OnLeave(t, index, Departure::kFreed);
  }
}

void Core::Impl::TellWant(TierIndex tier, PageIndex wanted) const {
  options_.policy->OnWant(tier, wanted == kNoPage ? std::nullopt : std::optional(wanted));
}

void Core::Impl::TellFrames(TierIndex tier) { options_.policy->OnFrames(tier, OpFramesMax(tier)); }

}  // namespace sluice::core
