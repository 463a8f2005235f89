#include "runtime/core/paging/eviction.h"

#include <algorithm>

#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

/// Number of exchanges of the tiers' whole content before some ticket must have profited.
constexpr std::uint64_t kExchangesMax = 4;

}  // namespace

bool Eviction::EnsureRoom(TierIndex tier, const Claim& claim) {
  while (m_.tiers[tier].pool.free_count() <= m_.frames.TransitReserve(tier)) {
    if (MakeRoom(tier, claim)) continue;
    m_.hastening.NoteShortage(tier, claim);
    return false;
  }
  return true;
}

/// Frees a frame at once when a victim leaves for nothing; else starts a page-out and returns
/// false.
bool Eviction::MakeRoom(TierIndex tier, const Claim& claim) {
  TierState& state = m_.tiers[tier];
  if (state.no_victim || tier == m_.last_tier() || GivesWay(claim)) return false;
  const bool only_let_go = m_.plan_follower.FollowsPlan() && claim.purpose == Purpose::kAhead;
  if ((only_let_go || tier == 0) && m_.plan_follower.DropLetGo(tier, claim)) return true;
  if (only_let_go) return false;
  if (NothingCanLeave(tier, claim) || m_.plan_follower.LeavesMakeRoom(tier)) {
    ++state.deficit;
    return false;
  }
  std::optional<PageIndex> victim = m_.victims.VictimFor(tier, claim);
  if (!victim.has_value() && m_.frames.RevokeHeld(tier, claim)) return true;
  if (!victim.has_value()) victim = m_.victims.VictimOnItsWay(tier, claim);
  if (!victim.has_value()) {
    state.no_victim = true;
    return false;
  }
  const bool stays = m_.page(*victim).lowest <= tier || m_.tiers[tier + 1].fenced ||
                     m_.plan_follower.FollowsPlan();
  if (m_.facts.FreeToLeave(m_.page(*victim), tier) ||
      (stays && m_.facts.MayDrop(m_.page(*victim), tier))) {
    EvictFree(tier, *victim, claim);
    return true;
  }
  ++state.deficit;
  const bool demand = claim.purpose == Purpose::kDemand;
  const std::uint32_t most =
      demand ? state.deficit : std::max(1u, m_.options.copies_in_flight_max / 2);
  if (state.leaving >= most) return false;
  if (StartEviction(tier, *victim, claim)) return false;
  return MakeRoomByOtherVictim(tier, claim);
}

bool Eviction::NothingCanLeave(TierIndex tier, const Claim& claim) const {
  const bool copies_above = tier > 0;  // one of those may leave in the last resort: see MayDrop
  return m_.tiers[tier].candidates_free == 0 && !copies_above && !m_.tiers[tier + 1].fenced &&
         m_.holding.empty() &&
         m_.movement.LinkFull(tier, static_cast<TierIndex>(tier + 1), claim.purpose);
}

/// Whether pages move to and fro and no ticket gets its pages. Far more tasks have then ended than
/// it takes to exchange the content of every tier. Tasks count since a ticket was last granted or
/// failed, or anything was asked for or released.
bool Eviction::Restless() const {
  std::uint64_t frames = 0;
  for (TierIndex t = 0; t < m_.last_tier(); ++t) frames += m_.tiers[t].pool.limit();
  return m_.tasks_since_progress > kExchangesMax * (frames + m_.last_tier());
}

/// Whether the claim gives way. While the tiers are restless only the ticket at the head displaces
/// pages, so that tasks come to an end. Then it is granted, somebody releases, or the stuck ticket
/// is told (I8).
bool Eviction::GivesWay(const Claim& claim) const {
  return !m_.pending.empty() && claim.arrival > m_.pending.front()->arrival && Restless();
}

/// The policy's choice has no place in the next tier. One may leave for nothing, or, when that tier
/// is the choice's lowest, go further down and pass through.
bool Eviction::MakeRoomByOtherVictim(TierIndex tier, const Claim& claim) {
  if (const std::optional<PageIndex> victim = m_.victims.VictimForNothing(tier, claim)) {
    EvictFree(tier, *victim, claim);
    return true;
  }
  std::optional<PageIndex> victim;
  if (tier + 1 < m_.last_tier()) {
    victim = m_.victims.AskVictim(tier, claim.page, [&](PageIndex candidate) {
      return m_.pages[candidate].lowest > tier + 1 && m_.victims.MayEvict(tier, candidate, claim);
    });
  }
  const bool leaves = victim.has_value() && StartEviction(tier, *victim, claim);
  if (!leaves) m_.tiers[tier].no_victim = true;
  return false;
}

bool Eviction::StartEviction(TierIndex tier, PageIndex index, const Claim& claim) {
  const auto target = static_cast<TierIndex>(tier + 1);
  Page& p = m_.page(index);
  if (m_.movement.LinkFull(tier, target, claim.purpose)) return false;
  const std::optional<FrameIndex> frame = TakeBelow(target, index, claim);
  if (!frame.has_value()) return false;
  const bool clean = claim.purpose == Purpose::kClean;
  Task task{.kind = TaskKind::kCopy, .page = index, .source = tier, .target = target};
  task.target_frame = *frame;
  task.evict = !clean;
  task.purpose = claim.purpose;
  p.copies[tier].leaving = !clean;
  ++(clean ? m_.tiers[tier].cleaning : m_.tiers[tier].leaving);
  m_.movement.StartCopyTask(index, task);
  if (!clean) m_.facts.TellDeparture(index, tier, claim.departure);
  if (clean) ++m_.counters.cleaned;
  if (claim.purpose == Purpose::kDemand) ++m_.counters.written_demand;
  if (claim.purpose == Purpose::kAhead) ++m_.counters.written_ahead;
  return true;
}

std::optional<FrameIndex> Eviction::TakeBelow(TierIndex tier, PageIndex index, const Claim& claim) {
  const PageCopy& copy = m_.page(index).copies[tier];
  TierState& state = m_.tiers[tier];
  if (copy.state == CopyState::kPlaced) {
    if (copy.readers > 0 || copy.mapping) return std::nullopt;
    m_.frames.DropCopy(index, tier);
    m_.tickets.Recheck(index);
    if (state.pool.free_count() > m_.frames.TransitReserve(tier)) {
      return m_.frames.TakeFor(tier, index);
    }
  }
  const bool replaces = copy.state == CopyState::kValid && copy.doomed && copy.readers == 0;
  if (copy.state != CopyState::kNone && !replaces) return std::nullopt;
  const std::optional<FrameIndex> frame = TakeForEviction(tier, index, claim);
  if (frame.has_value() && replaces) m_.copies.SetDoomedAside(index);
  return frame;
}

/// Frame that an evicted page goes to. The first choice is a free frame. The second is the transit
/// way further down, if the page will be used no sooner than the one it would displace. The last is
/// the frame of a victim. A page that the plan keeps here waits for a frame, as the page that has
/// it now is to leave.
std::optional<FrameIndex> Eviction::TakeForEviction(TierIndex tier,
                                                    PageIndex index,
                                                    const Claim& claim) {
  TierState& state = m_.tiers[tier];
  Claim own = claim;
  own.page = index;
  own.arrives = false;
  own.departure = Departure::kVictim;
  if (m_.plan_follower.FollowsPlan() && claim.purpose == Purpose::kAhead)
    own.purpose = Purpose::kDemand;
  const bool room = state.pool.free_count() > m_.frames.TransitReserve(tier);
  if (claim.purpose == Purpose::kClean || tier == m_.last_tier()) {
    return room ? m_.frames.Take(tier, own) : std::nullopt;
  }
  const bool stays = claim.purpose == Purpose::kAhead && m_.plan_follower.IsKept(index, tier);
  const bool passes = m_.page(index).lowest > tier && !m_.tiers[tier + 1].fenced && !stays;
  if (room) return m_.frames.Take(tier, own);
  const std::optional<PageIndex> victim = m_.victims.VictimFor(tier, own);
  const bool further = !victim.has_value() || (!m_.facts.FreeToLeave(m_.pages[*victim], tier) &&
                                               m_.facts.UseKnown(m_.pages[*victim], tier) <=
                                                   m_.facts.UseKnown(m_.pages[index], tier));
  if (passes && further) {
    if (auto frame = m_.frames.TakeTransit(tier, LinkDirection::kOut, index)) return frame;
  }
  if (auto frame = m_.frames.Take(tier, own)) return frame;
  return passes || MoverMakesWay(tier, claim)
             ? m_.frames.TakeTransit(tier, LinkDirection::kOut, index)
             : std::nullopt;
}

/// Whether the page that the room is for leaves a frame of `tier` itself: the two change places,
/// one of them through a transit frame.
bool Eviction::MoverMakesWay(TierIndex tier, const Claim& claim) const {
  if (claim.mover == kNoPage || claim.purpose != Purpose::kDemand) return false;
  const Page& mover = m_.pages[claim.mover];
  const PageCopy& copy = mover.copies[tier];
  return copy.state == CopyState::kValid && !copy.transit && !m_.facts.PinnedAt(mover, tier);
}

void Eviction::EvictFree(TierIndex tier, PageIndex index, const Claim& claim) {
  Page& p = m_.page(index);
  const bool dead = !p.content || p.copies[tier].state == CopyState::kPlaced;
  ++(dead ? m_.counters.dropped_dead : m_.counters.dropped_clean);
  if (p.prefetched_tier == tier) {
    const bool revoked = claim.purpose == Purpose::kDemand;
    m_.goals.EndPrefetch(p, revoked ? &m_.counters.prefetch_revoked : &m_.counters.prefetch_wasted);
  }
  m_.frames.DropCopy(index, tier, claim.departure);
  m_.tickets.Recheck(index);
  m_.goals.Reconsider(index);
  m_.facts.Update(index);
}

}  // namespace sluice::core
