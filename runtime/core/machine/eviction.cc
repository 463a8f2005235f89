#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/core/machine/core_impl.h"

namespace sluice::core {

/// Number of exchanges of the tiers' whole content before some ticket must have profited.
constexpr std::uint64_t kExchangesMax = 4;
/// Number of pages that would do, from which on the policy as a rule comes to one of them soon by
/// itself.
constexpr std::size_t kFewPages = 2048;

/// Whether a frame beyond the transit reserve is free, after victims have left if need be. One that
/// sat above a lowered budget gives no frame that may be used, so there may have to be several.
bool Core::Impl::EnsureRoom(TierIndex tier, const Claim& claim) {
  while (tiers_[tier].pool.free_count() <= TransitReserve(tier)) {
    if (MakeRoom(tier, claim)) continue;
    NoteShortage(tier, claim);
    return false;
  }
  return true;
}

/// Frees a frame at once when a victim leaves for nothing; else starts a page-out and returns
/// false.
bool Core::Impl::MakeRoom(TierIndex tier, const Claim& claim) {
  TierState& state = tiers_[tier];
  if (state.no_victim || tier == last_tier() || GivesWay(claim)) return false;
  const bool only_let_go = FollowsPlan() && claim.purpose == Purpose::kAhead;
  if ((only_let_go || tier == 0) && DropLetGo(tier, claim)) return true;
  if (only_let_go) return false;
  if (NothingCanLeave(tier, claim) || LeavesMakeRoom(tier)) {
    ++state.deficit;
    return false;
  }
  std::optional<PageIndex> victim = VictimFor(tier, claim);
  if (!victim.has_value() && RevokeHeld(tier, claim)) return true;
  if (!victim.has_value()) victim = VictimOnItsWay(tier, claim);
  if (!victim.has_value()) {
    state.no_victim = true;
    return false;
  }
  const bool stays = page(*victim).lowest <= tier || tiers_[tier + 1].fenced || FollowsPlan();
  if (FreeToLeave(page(*victim), tier) || (stays && MayDrop(page(*victim), tier))) {
    EvictFree(tier, *victim, claim);
    return true;
  }
  ++state.deficit;
  const bool demand = claim.purpose == Purpose::kDemand;
  const std::uint32_t most =
      demand ? state.deficit : std::max(1u, options_.copies_in_flight_max / 2);
  if (state.leaving >= most) return false;
  if (StartEviction(tier, *victim, claim)) return false;
  return MakeRoomByOtherVictim(tier, claim);
}

/// Whether no page can leave now, whichever it is: the way down is full, and none leaves for
/// nothing.
bool Core::Impl::NothingCanLeave(TierIndex tier, const Claim& claim) {
  const bool copies_above = tier > 0;  // one of those may leave in the last resort: see MayDrop
  return tiers_[tier].candidates_free == 0 && !copies_above && !tiers_[tier + 1].fenced &&
         holding_.empty() && LinkFull(tier, static_cast<TierIndex>(tier + 1), claim.purpose);
}

/// Whether pages move to and fro and no ticket gets its pages. Far more tasks have then ended than
/// it takes to exchange the content of every tier. Tasks count since a ticket was last granted or
/// failed, or anything was asked for or released.
bool Core::Impl::Restless() const {
  std::uint64_t frames = 0;
  for (TierIndex t = 0; t < last_tier(); ++t) frames += tiers_[t].pool.limit();
  return tasks_since_progress_ > kExchangesMax * (frames + last_tier());
}

/// The policy's victim for the claim. Thousands of pages that a ticket lacks may ask one after the
/// other while nothing changes. If none of their own copies is concerned, all get one answer. (An
/// online policy may decide by the page that the room is for.)
std::optional<PageIndex> Core::Impl::VictimFor(TierIndex tier, const Claim& claim) {
  const auto ask = [&] {
    return AskVictim(
        tier, claim.page, [&](PageIndex candidate) { return MayEvict(tier, candidate, claim); });
  };
  const bool own = IsInserted(claim.page, tier) || IsInserted(claim.mover, tier);
  if (claim.purpose != Purpose::kDemand || own || online_) return ask();
  Answer& last = tiers_[tier].answer;
  if (last.arrival != claim.arrival || last.changes != changes_) {
    last = {claim.arrival, changes_, ask()};
  }
  return last.victim;
}

/// Whether the claim gives way. While the tiers are restless only the ticket at the head displaces
/// pages, so that tasks come to an end. Then it is granted, somebody releases, or the stuck ticket
/// is told (I8).
bool Core::Impl::GivesWay(const Claim& claim) const {
  return !pending_.empty() && claim.arrival > pending_.front()->arrival && Restless();
}

/// A victim when nothing moves: two pages of one ticket may each sit where the other is wanted. The
/// one that arrives displaces the other, which comes back by another way.
std::optional<PageIndex> Core::Impl::VictimOnItsWay(TierIndex tier, const Claim& claim) const {
  if (claim.purpose != Purpose::kDemand || !claim.arrives || !tasks_.empty()) return std::nullopt;
  return AskVictim(tier, claim.page, [&](PageIndex index) {
    const Page& p = pages_[index];
    if (Moves(index, tier, claim) || WantedUpTo(p, tier, claim.arrival - 1)) return false;
    const bool wanted_here = std::any_of(p.queue.begin(), p.queue.end(), [&](const Need* need) {
      return need->request.tier == tier && need->ticket->arrival <= claim.arrival;
    });
    if (wanted_here) return false;
    return MayDrop(p, tier) || (p.lowest > tier && !tiers_[tier + 1].fenced);
  });
}

/// The policy's choice has no place in the next tier. One may leave for nothing, or, when that tier
/// is the choice's lowest, go further down and pass through.
bool Core::Impl::MakeRoomByOtherVictim(TierIndex tier, const Claim& claim) {
  if (const std::optional<PageIndex> victim = VictimForNothing(tier, claim)) {
    EvictFree(tier, *victim, claim);
    return true;
  }
  std::optional<PageIndex> victim;
  if (tier + 1 < last_tier()) {
    victim = AskVictim(tier, claim.page, [&](PageIndex candidate) {
      return pages_[candidate].lowest > tier + 1 && MayEvict(tier, candidate, claim);
    });
  }
  const bool leaves = victim.has_value() && StartEviction(tier, *victim, claim);
  if (!leaves) tiers_[tier].no_victim = true;
  return false;
}

bool Core::Impl::LeavesForNothing(TierIndex tier, PageIndex index, const Claim& claim) const {
  const Page& p = pages_[index];
  const bool demand = claim.purpose == Purpose::kDemand;
  return (demand ? MayDrop(p, tier) : FreeToLeave(p, tier)) && MayEvict(tier, index, claim);
}

/// A victim that leaves for nothing. Only pages that are known to leave so are looked at, not
/// thousands of others. All are looked at when nothing is in flight, so that this is the last
/// resort.
std::optional<PageIndex> Core::Impl::VictimForNothing(TierIndex tier, const Claim& claim) const {
  const auto leaves = [&](PageIndex page) { return LeavesForNothing(tier, page, claim); };
  const bool all_known = !tiers_[last_tier()].fenced;  // a fence makes doomed copies count again
  if (!all_known || tasks_.empty()) return AskVictim(tier, claim.page, leaves);
  if (tiers_[tier].lossless.empty()) return std::nullopt;
  if (tier == 0 && !online_) {  // pages told free to leave, with no tier above
    TellWant(tier, claim.page);
    return Checked(tier, options_.policy->VictimToDrop(tier, leaves), leaves);
  }
  std::vector<PageIndex> few;
  for (const PageIndex page : tiers_[tier].lossless) {
    if (few.size() == kFewPages) return AskVictim(tier, claim.page, leaves);
    if (leaves(page)) few.push_back(page);
  }
  if (few.empty()) return std::nullopt;
  std::sort(few.begin(), few.end());
  TellWant(tier, claim.page);
  const std::optional<PageIndex> victim = options_.policy->VictimAmong(tier, few);
  SLUICE_CHECK(victim.has_value() && std::binary_search(few.begin(), few.end(), *victim),
               "PagingPolicy::VictimAmong names one of the pages");
  return victim;
}

bool Core::Impl::MayEvict(TierIndex tier, PageIndex index, const Claim& claim) const {
  const Page& p = pages_[index];
  if (Moves(index, tier, claim) || WantedUpTo(p, tier, claim.arrival)) return false;
  const bool foreseen = p.goal.tier != kNoTier && p.goal.position <= claim.position;
  // A page fetched ahead does not displace one that is fetched ahead for the same op or an earlier
  // one.
  if (claim.purpose == Purpose::kAhead && foreseen) return false;
  // Nor does a page that moves ahead of need displace one that is needed no later.
  if (claim.purpose != Purpose::kDemand && UseAt(p, tier) <= claim.position) return false;
  return MayDrop(p, tier) || (p.lowest > tier && !tiers_[tier + 1].fenced);
}

/// Whether the page's copy in `tier` is needed for the very move that the claim is for.
bool Core::Impl::Moves(PageIndex index, TierIndex tier, const Claim& claim) const {
  return index == claim.page ||
         (index == claim.mover && pages_[index].copies[tier].state == CopyState::kValid);
}

/// Whether a waiting ticket up to `arrival` needs the page's copy in `tier`: it is where the ticket
/// wants it, or the one that the way there starts from.
bool Core::Impl::WantedUpTo(const Page& p, TierIndex tier, std::uint64_t arrival) const {
  return std::any_of(p.queue.begin(), p.queue.end(), [&](const Need* need) {
    const bool waits = need->ticket->kind == TicketKind::kAcquire && !need->ticket->granted &&
                       need->ticket->arrival <= arrival;
    if (!waits || need->ready) return waits && need->request.tier == tier;
    const bool brings = need->request.mode != PageMode::kOverwrite;
    return need->request.tier == tier || (brings && BestSource(p, need->request.tier) == tier);
  });
}

bool Core::Impl::StartEviction(TierIndex tier, PageIndex index, const Claim& claim) {
  const auto target = static_cast<TierIndex>(tier + 1);
  Page& p = page(index);
  if (LinkFull(tier, target, claim.purpose)) return false;
  const std::optional<FrameIndex> frame = TakeBelow(target, index, claim);
  if (!frame.has_value()) return false;
  const bool clean = claim.purpose == Purpose::kClean;
  Task task{.kind = TaskKind::kCopy, .page = index, .source = tier, .target = target};
  task.target_frame = *frame;
  task.evict = !clean;
  task.purpose = claim.purpose;
  p.copies[tier].leaving = !clean;
  ++(clean ? tiers_[tier].cleaning : tiers_[tier].leaving);
  StartCopyTask(index, task);
  if (!clean) TellDeparture(index, tier, claim.departure);
  if (clean) ++counters_.cleaned;
  if (claim.purpose == Purpose::kDemand) ++counters_.written_demand;
  if (claim.purpose == Purpose::kAhead) ++counters_.written_ahead;
  return true;
}

/// A frame for the page's content one tier down: the one that was placed there for an overwrite of
/// it (who waits for that then waits for the content), else another.
std::optional<FrameIndex> Core::Impl::TakeBelow(TierIndex tier,
                                                PageIndex index,
                                                const Claim& claim) {
  const PageCopy& copy = page(index).copies[tier];
  TierState& state = tiers_[tier];
  if (copy.state == CopyState::kPlaced) {
    if (copy.readers > 0 || copy.mapping) return std::nullopt;
    DropCopy(index, tier);
    Recheck(index);
    if (state.pool.free_count() > TransitReserve(tier)) {
      return TakeFrameFor(tier, index);
    }
  }
  const bool replaces = copy.state == CopyState::kValid && copy.doomed && copy.readers == 0;
  if (copy.state != CopyState::kNone && !replaces) return std::nullopt;
  const std::optional<FrameIndex> frame = TakeForEviction(tier, index, claim);
  if (frame.has_value() && replaces) SetDoomedAside(index);
  return frame;
}

/// Frame that an evicted page goes to. The first choice is a free frame. The second is the transit
/// way further down, if the page will be used no sooner than the one it would displace. The last is
/// the frame of a victim. A page that the plan keeps here waits for a frame, as the page that has
/// it now is to leave.
std::optional<FrameIndex> Core::Impl::TakeForEviction(TierIndex tier,
                                                      PageIndex index,
                                                      const Claim& claim) {
  TierState& state = tiers_[tier];
  Claim own = claim;
  own.page = index;
  own.arrives = false;
  own.departure = Departure::kVictim;
  if (FollowsPlan() && claim.purpose == Purpose::kAhead) own.purpose = Purpose::kDemand;
  const bool room = state.pool.free_count() > TransitReserve(tier);
  if (claim.purpose == Purpose::kClean || tier == last_tier()) {
    return room ? TakeFrame(tier, own) : std::nullopt;
  }
  const bool stays = claim.purpose == Purpose::kAhead && IsKept(index, tier);
  const bool passes = page(index).lowest > tier && !tiers_[tier + 1].fenced && !stays;
  if (room) return TakeFrame(tier, own);
  const std::optional<PageIndex> victim = VictimFor(tier, own);
  const bool further =
      !victim.has_value() || (!FreeToLeave(pages_[*victim], tier) &&
                              UseKnown(pages_[*victim], tier) <= UseKnown(pages_[index], tier));
  if (passes && further) {
    if (auto frame = TakeTransit(tier, LinkDirection::kOut, index)) return frame;
  }
  if (auto frame = TakeFrame(tier, own)) return frame;
  return passes || MoverMakesWay(tier, claim) ? TakeTransit(tier, LinkDirection::kOut, index)
                                              : std::nullopt;
}

/// Whether the page that the room is for leaves a frame of `tier` itself: the two change places,
/// one of them through a transit frame.
bool Core::Impl::MoverMakesWay(TierIndex tier, const Claim& claim) const {
  if (claim.mover == kNoPage || claim.purpose != Purpose::kDemand) return false;
  const Page& mover = pages_[claim.mover];
  const PageCopy& copy = mover.copies[tier];
  return copy.state == CopyState::kValid && !copy.transit && !PinnedAt(mover, tier);
}

void Core::Impl::EvictFree(TierIndex tier, PageIndex index, const Claim& claim) {
  Page& p = page(index);
  const bool dead = !p.content || p.copies[tier].state == CopyState::kPlaced;
  ++(dead ? counters_.dropped_dead : counters_.dropped_clean);
  if (p.prefetched_tier == tier) {
    const bool revoked = claim.purpose == Purpose::kDemand;
    EndPrefetch(p, revoked ? &counters_.prefetch_revoked : &counters_.prefetch_wasted);
  }
  DropCopy(index, tier, claim.departure);
  Recheck(index);
  ReconsiderGoal(index);
  UpdateFacts(index);
}

}  // namespace sluice::core
