#include "runtime/core/machine/need_pass.h"

#include <algorithm>

#include "runtime/core/machine/machine.h"

namespace sluice::core {

/// Whether the claim's ticket gets no further frame in `tier` in this round, whatever it is for.
bool NeedPass::IsDry(TierIndex tier, const Claim& claim) const {
  const TierState& state = m_.tiers[tier];
  return state.pool.free_count() <= m_.frames.TransitReserve(tier) &&
         (state.no_victim || m_.eviction.NothingCanLeave(tier, claim) ||
          m_.plan_follower.LeavesMakeRoom(tier));
}

/// Whether the page's next step is another than that of most: from where it is into a frame that it
/// does not have yet. One that is copied while somebody waits to write it is looked at, to hasten.
bool NeedPass::StepsAlone(const PageRequest& request) const {
  const Page& p = m_.pages[request.page];
  const bool hastens = IsWrite(request.mode) && p.tasks > 0;
  return p.copies[request.tier].state != CopyState::kNone || p.held_tier != kNoTier ||
         p.write_pinned || hastens || InTransit(p);
}

/// Group of the needs whose pages take the same step as this one's.
NeedQueue::Group NeedPass::GroupOf(const PageRequest& request) const {
  if (StepsAlone(request)) return NeedQueue::kAlone;
  const Page& p = m_.pages[request.page];
  if (!p.content || request.mode == PageMode::kOverwrite) return NeedQueue::Into(request.tier);
  const std::optional<TierIndex> source = m_.copies.BestSource(p, request.tier);
  if (!source.has_value()) return NeedQueue::kAlone;
  if (*source + 1 == request.tier) return NeedQueue::Down(request.tier);
  if (*source < request.tier) return NeedQueue::kAlone;
  const auto hop = static_cast<TierIndex>(*source - 1);
  const bool empty = p.copies[hop].state == CopyState::kNone;
  return empty ? NeedQueue::Up(hop, request.tier) : NeedQueue::kAlone;
}

/// Lets the others pass over what nobody who takes the same step can do in this round: there is no
/// place on the link, or no frame where it leads and no way past it.
void NeedPass::CloseWhatIsBarred(TierIndex wanted, const Claim& claim, NeedQueue::Pass* pass) {
  const bool dry = IsDry(wanted, claim);
  if (dry) NeedQueue::Close(NeedQueue::Into(wanted), pass);
  if (wanted > 0) {
    const auto above = static_cast<TierIndex>(wanted - 1);
    if (dry || m_.movement.LinkFull(above, wanted, claim.purpose)) {
      NeedQueue::Close(NeedQueue::Down(wanted), pass);
    }
  }
  for (TierIndex hop = wanted; hop < m_.last_tier(); ++hop) {
    const auto below = static_cast<TierIndex>(hop + 1);
    const bool no_frame = IsDry(hop, claim) &&
                          (hop == wanted || dry || !m_.frames.TransitFree(hop, LinkDirection::kIn));
    if (no_frame || m_.movement.LinkFull(below, hop, claim.purpose)) {
      NeedQueue::Close(NeedQueue::Up(hop, wanted), pass);
    }
  }
}

/// Moves the need on if it can; what it waits for, others of the ticket need not ask for.
void NeedPass::WorkOn(NeedQueue::Ordinal ordinal, Ticket& ticket, NeedQueue::Pass* pass) {
  Need& need = ticket.needs[ordinal];
  if (need.ready || !need.locked) return ticket.queue.Remove(ordinal);
  const PageRequest& request = need.request;
  const NeedQueue::Group group = GroupOf(request);
  if (NeedQueue::IsClosed(*pass, group)) return ticket.queue.Move(ordinal, group);
  const Goal want{request.tier, request.mode, request.map, 0};
  const Claim claim{Purpose::kDemand, ticket.arrival, 0, request.page};
  const std::size_t others = m_.hastening.shortages();
  const Progress progress = m_.movement.Advance(request.page, want, claim);
  if (progress != Progress::kBlocked) {
    m_.hastening.KeepShortages(others);  // the need found another way
    ticket.queue.Remove(ordinal);
    if (progress == Progress::kReady) m_.tickets.MarkReady(need, m_.tickets.IsReady(need));
    return;
  }
  ticket.queue.Move(ordinal, GroupOf(request));
  CloseWhatIsBarred(request.tier, claim, pass);
}

/// Whether `found` is true of a need that was not looked at for want of room in `tier`.
template <typename Found>
bool NeedPass::AnyPassedOver(const Ticket& ticket,
                             const NeedQueue::Pass& pass,
                             TierIndex tier,
                             Found found) {
  const auto lacks = [&](NeedQueue::Ordinal ordinal) {
    const Need& need = ticket.needs[ordinal];
    return !need.ready && need.locked && !StepsAlone(need.request) && found(need);
  };
  if (ticket.queue.AnyPassedOver(pass, NeedQueue::Into(tier), lacks)) return true;
  const auto above = static_cast<TierIndex>(tier - 1);
  if (tier > 0 && !m_.movement.LinkFull(above, tier, Purpose::kDemand) &&
      ticket.queue.AnyPassedOver(pass, NeedQueue::Down(tier), lacks)) {
    return true;
  }
  const auto below = static_cast<TierIndex>(tier + 1);
  if (m_.movement.LinkFull(below, tier, Purpose::kDemand)) return false;
  for (TierIndex wanted = 0; wanted <= tier; ++wanted) {
    if (ticket.queue.AnyPassedOver(pass, NeedQueue::Up(tier, wanted), lacks)) return true;
  }
  return false;
}

/// Notes that needs that were not looked at for want of room in `tier` lack it as well. Later
/// tickets get no frame there before them.
void NeedPass::NotePassedOver(const Ticket& ticket, const NeedQueue::Pass& pass, TierIndex tier) {
  if (!AnyPassedOver(ticket, pass, tier, [](const Need&) { return true; })) return;
  TierState& state = m_.tiers[tier];
  state.starved = true;
  state.starved_arrival = std::min(state.starved_arrival, ticket.arrival);
  if (m_.hastening.nothing_to_hasten()) return;
  std::uint32_t noted = 0;
  AnyPassedOver(ticket, pass, tier, [&](const Need& need) {
    m_.hastening.NoteShortage(tier, {.arrival = ticket.arrival, .page = need.request.page});
    return ++noted == m_.options.copies_in_flight_max;
  });
}

void NeedPass::WorkOn(Ticket& ticket) {
  NeedQueue::Pass pass;
  while (const auto ordinal = ticket.queue.Next(&pass)) WorkOn(*ordinal, ticket, &pass);
  for (TierIndex t = 0; t < m_.last_tier(); ++t) NotePassedOver(ticket, pass, t);
  if (ticket.unready > 0 || !m_.pump.InTurn(ticket)) return;
  for (Need& need : ticket.needs) {
    if (!m_.tickets.IsReady(need)) m_.tickets.MarkReady(need, false);
  }
  if (ticket.unready == 0) m_.tickets.Grant(ticket);
}

}  // namespace sluice::core
