#include "runtime/core/machine/stuck_tickets.h"

#include <algorithm>

#include "runtime/core/machine/machine.h"

namespace sluice::core {

/// Reason for which a ticket is stuck. The op's pages may not fit any more beside those that cannot
/// leave: a budget was lowered, frames were reserved, or pages may not go below the tier. Else no
/// room can be made in `tier`.
FailTicket StuckTickets::WhyStuck(const Ticket& ticket, TierIndex tier) const {
  for (TierIndex t = 0; t < m_.last_tier(); ++t) {
    std::uint32_t own = 0;
    std::uint64_t others = m_.tiers[t].committed;
    for (const Need& need : ticket.needs) {
      if (need.request.tier != t) continue;
      ++own;
      const Page& p = m_.pages[need.request.page];
      if (p.lowest == t && !p.read_only) --others;
    }
    const std::uint64_t limit =
        m_.capacity.OpFramesMax(t) - std::min<std::uint64_t>(others, m_.capacity.OpFramesMax(t));
    if (own <= limit) continue;
    const auto room = static_cast<std::uint32_t>(limit);
    return {ticket.number, TicketFailure::kTooLarge, kNoPage, t, own, room};
  }
  return {ticket.number, TicketFailure::kTierFull, kNoPage, tier};
}

/// Whether the op, which holds pages, goes on only after the ticket: it is its own, one of an
/// earlier op of its lane, or one of the lane's ops that nest, as the op does.
bool StuckTickets::WaitsFor(OpNumber op, const Holder& holder, const Ticket& ticket) {
  return ticket.op == op ||
         (ticket.lane == holder.lane && (ticket.op < op || (ticket.nested && holder.nested)));
}

/// Called when nothing is in flight or leased, so room is all that the tickets lack. One that can
/// never fit may hold up the head, which then goes on once that one has failed.
void StuckTickets::FailForRoom() {
  TierIndex tier = 0;
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    if (m_.tiers[t].starved) tier = t;
    if (m_.tiers[t].fenced) tier = t;
  }
  for (Ticket* ticket : m_.pending) {
    const FailTicket why = WhyStuck(*ticket, tier);
    if (why.reason == TicketFailure::kTooLarge) return m_.tickets.FailTicketWith(*ticket, why);
  }
  if (m_.fences.LiftBefore(m_.pending.front()->arrival)) return;
  m_.fences.LiftAll();
  Ticket& head = *m_.pending.front();
  m_.tickets.FailTicketWith(head, WhyStuck(head, tier));
}

/// Called when nothing is in flight: the head ticket waits for pages that only other ops can give
/// back, or for room that no tier below gives. True when a ticket was failed, or a fence lifted.
bool StuckTickets::EndOne() {
  if (m_.pending.empty()) return m_.pinned_pages == 0 && m_.budgets.RefuseOne();
  const auto runs = [this](const auto& holder) {
    return std::none_of(m_.pending.begin(), m_.pending.end(), [&](const Ticket* ticket) {
      return WaitsFor(holder.first, holder.second, *ticket);
    });
  };
  // An op that runs will release its pages.
  if (std::any_of(m_.holders.begin(), m_.holders.end(), runs)) return false;
  if (m_.holders.empty()) {
    FailForRoom();
    return true;
  }
  for (auto ticket = m_.pending.rbegin(); ticket != m_.pending.rend(); ++ticket) {
    const bool blocks = std::any_of(m_.holders.begin(), m_.holders.end(), [&](const auto& holder) {
      return WaitsFor(holder.first, holder.second, **ticket);
    });
    if (!blocks) continue;
    m_.tickets.FailTicketWith(**ticket,
                              FailTicket{(*ticket)->number, TicketFailure::kWouldDeadlock});
    return true;
  }
  return false;
}

}  // namespace sluice::core
