#include "runtime/core/machine/wait_causes.h"

#include <algorithm>

#include "runtime/core/machine/machine.h"

namespace sluice::core {

void WaitCauses::List(std::vector<TicketWait>* waits) const {
  waits->clear();
  for (const Ticket* ticket : m_.pending) {
    const auto same = [&](const TicketWait& wait) { return wait.lane == ticket->lane; };
    if (std::any_of(waits->begin(), waits->end(), same)) continue;
    const bool writes = LacksRoom(*ticket) || HasPageOnItsWayOut(*ticket);
    waits->push_back({ticket->number, ticket->lane, writes ? WaitFor::kWrite : WaitFor::kRead});
  }
}

bool WaitCauses::LacksRoom(const Ticket& ticket) const {
  return ticket.queue.Any([&](NeedQueue::Ordinal ordinal) {
    const Need& need = ticket.needs[ordinal];
    return !need.ready && need.locked && LacksRoom(need);
  });
}

/// Whether the page could go on if a frame were free, and one will be when a page-out ends.
bool WaitCauses::LacksRoom(const Need& need) const {
  const TierIndex tier = need.request.tier;
  const std::optional<TierIndex> source = m_.copies.BestSource(m_.pages[need.request.page], tier);
  if (!source.has_value() || *source <= tier) return RoomComes(tier);
  const auto hop = static_cast<TierIndex>(*source - 1);
  const LinkLoad& load = m_.links[hop];
  if (load.in_flight[DirectionIndex(*source, hop)] >= m_.options.copies_in_flight_max) return false;
  return RoomComes(hop) || RoomComes(tier);
}

bool WaitCauses::RoomComes(TierIndex tier) const {
  const bool full = m_.tiers[tier].pool.free_count() <= m_.frames.TransitReserve(tier);
  return full && m_.links[tier].in_flight[1] > 0;
}

/// Whether a page that the ticket is to write is where it is wanted, and being copied down (I4).
bool WaitCauses::HasPageOnItsWayOut(const Ticket& ticket) const {
  return std::any_of(m_.tasks.begin(), m_.tasks.end(), [&](const auto& entry) {
    const Task& task = entry.second;
    if (task.kind != TaskKind::kCopy || task.target < task.source) return false;
    const Page& p = m_.pages[task.page];
    return std::any_of(p.queue.begin(), p.queue.end(), [&](const Need* need) {
      return need->ticket == &ticket && need->locked && IsWrite(need->request.mode) &&
             p.copies[need->request.tier].state == CopyState::kValid;
    });
  });
}

}  // namespace sluice::core
