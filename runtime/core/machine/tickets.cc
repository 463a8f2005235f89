#include "runtime/core/machine/tickets.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

std::vector<Need*>::iterator FirstWriter(std::vector<Need*>& queue) {
  return std::find_if(
      queue.begin(), queue.end(), [](const Need* need) { return IsWrite(need->request.mode); });
}

}  // namespace

void Tickets::On(const Acquire& event) {
  const bool followed = m_.book.following();
  const bool expected = m_.book.Advance(event);
  m_.options.policy->OnStep(m_.book.now());
  if (expected) {
    for (const PageRequest& request : event.requests)
      m_.lookahead.SetNextUse(request.page, m_.book.now());
  } else if (followed && !m_.book.following()) {
    m_.lookahead.RefreshNextUses();  // diverged: what was foreseen no longer counts
    m_.plan_follower.LeavePlan();
  }
  if (RefuseTooLarge(event) || RefuseLost(event)) {
    for (const PageRequest& request : event.requests) m_.facts.Update(request.page);
    return;
  }
  auto ticket = std::make_unique<Ticket>();
  ticket->number = event.ticket;
  ticket->op = event.op;
  ticket->lane = event.lane;
  ticket->nested = event.nested;
  if (expected) ticket->position = m_.book.last();
  ticket->needs.reserve(event.requests.size());
  for (const PageRequest& request : event.requests) {
    SLUICE_CHECK(request.page < m_.pages.size() && m_.pages[request.page].exists &&
                     !m_.pages[request.page].dying,
                 "an acquire names living pages");
    SLUICE_CHECK(request.tier < m_.last_tier(), "nothing is leased in the last tier");
    ticket->needs.push_back(Need{ticket.get(), request});
    ticket->pinned += request.leases;
  }
  QueueNeeds(std::move(ticket));
  if (expected) m_.plan_follower.TakePlannedStep(m_.book.last());
}

bool Tickets::RefuseTooLarge(const Acquire& event) {
  std::array<std::uint32_t, kTiersMax> pages{};
  for (const PageRequest& request : event.requests) ++pages[request.tier];
  for (TierIndex t = 0; t < m_.last_tier(); ++t) {
    if (pages[t] <= m_.capacity.OpFramesMax(t)) continue;
    m_.Emit(FailTicket{
        event.ticket, TicketFailure::kTooLarge, kNoPage, t, pages[t], m_.capacity.OpFramesMax(t)});
    return true;
  }
  return false;
}

bool Tickets::RefuseLost(const Acquire& event) {
  for (const PageRequest& request : event.requests) {
    const Page& p = m_.pages[request.page];
    if (!p.lost || request.mode == PageMode::kOverwrite) continue;
    if (IsToBeKilled(p)) continue;  // a discard comes first
    m_.Emit(FailTicket{event.ticket, TicketFailure::kPageLost, request.page});
    return true;
  }
  return false;
}

/// Queues a need behind the others of the page. A reader within a reader of its lane goes before
/// writers, which wait for the outer one. It does not go before a discard.
void Tickets::Queue(Need& need) {
  std::vector<Need*>& queue = m_.page(need.request.page).queue;
  queue.insert(GoesBeforeWriters(need) ? FirstWriter(queue) : queue.end(), &need);
}

bool Tickets::GoesBeforeWriters(const Need& need) {
  if (!need.ticket->nested || IsWrite(need.request.mode)) return false;
  std::vector<Need*>& queue = m_.page(need.request.page).queue;
  const bool dies = std::any_of(queue.begin(), queue.end(), [](const Need* each) {
    return each->ticket->kind != TicketKind::kAcquire;
  });
  return !dies && std::any_of(queue.begin(), FirstWriter(queue), [&](const Need* each) {
    const Ticket& outer = *each->ticket;
    return outer.granted && outer.nested && outer.lane == need.ticket->lane;
  });
}

void Tickets::QueueNeeds(std::unique_ptr<Ticket> owned) {
  Ticket& ticket = *owned;
  ticket.arrival = m_.next_arrival++;
  ticket.unready = static_cast<std::uint32_t>(ticket.needs.size());
  m_.pending.push_back(&ticket);
  SLUICE_CHECK(m_.live_tickets.emplace(ticket.number, std::move(owned)).second,
               "ticket numbers are unique");
  NoteHead();
  for (std::uint32_t i = 0; i < ticket.needs.size(); ++i) {
    Need& need = ticket.needs[i];
    Page& p = m_.page(need.request.page);
    Queue(need);
    RefreshLocks(need.request.page);
    m_.facts.Update(need.request.page);
    CountPrefetch(p, need.request.tier, need.ready);
  }
}

void Tickets::CountPrefetch(Page& p, TierIndex tier, bool ready) {
  const bool hit = ready && p.prefetched_tier == tier;
  m_.goals.EndPrefetch(p, hit ? &m_.counters.prefetch_hit : &m_.counters.prefetch_late);
  p.hint_tier = kNoTier;
  p.given_up = p.refused = false;
}

void Tickets::RefreshLocks(PageIndex index) {
  Page& p = m_.page(index);
  bool only_readers = true;
  for (std::size_t i = 0; i < p.queue.size(); ++i) {
    Need& need = *p.queue[i];
    const bool write = IsWrite(need.request.mode);
    need.locked = write ? i == 0 : only_readers;
    only_readers = only_readers && !write;
    if (!only_readers && i > 0) break;
  }
  Recheck(index);
}

bool Tickets::IsReady(const Need& need) const {
  const Page& p = m_.pages[need.request.page];
  const PageCopy& copy = p.copies[need.request.tier];
  if (!need.locked) return false;
  if (copy.transit || (need.request.map && !copy.mapped)) return false;
  const bool under_way = copy.under_way && need.ticket->takes_under_way;
  if (IsWrite(need.request.mode) && p.tasks > (under_way ? 1 : 0)) return false;
  if (need.request.mode == PageMode::kOverwrite && copy.state == CopyState::kPlaced) return true;
  return under_way || copy.state == CopyState::kValid;
}

void Tickets::MarkReady(Need& need, bool ready) {
  Ticket& ticket = *need.ticket;
  if (need.ready != ready) {
    need.ready = ready;
    ++m_.changes;
    ticket.unready += ready ? -1u : 1u;
  }
  const auto ordinal = static_cast<NeedQueue::Ordinal>(&need - ticket.needs.data());
  if (ready) ticket.queue.Remove(ordinal);
  if (!ready && need.locked) ticket.queue.Add(ordinal);
}

void Tickets::Recheck(PageIndex index) {
  Page& p = m_.page(index);
  for (std::size_t i = 0; i < p.queue.size(); ++i) {
    Need& need = *p.queue[i];
    Ticket& ticket = *need.ticket;
    if (ticket.kind != TicketKind::kAcquire) {
      if (i == 0 && m_.discards.FinishKill(index)) {
        RefreshLocks(index);
        return;
      }
      return;
    }
    if (ticket.granted) continue;
    MarkReady(need, IsReady(need));
    if (!need.locked) return;
  }
}

/// Notes the ticket at the head. Nobody may evict pages that it waits for where they are (see
/// WantedUpTo). Such pages are no candidates, so that nobody looks at them in vain.
void Tickets::NoteHead() {
  Ticket* const head = m_.pending.empty() ? nullptr : m_.pending.front();
  if (head == head_) return;
  head_ = head;
  if (head_ == nullptr) return;
  SetHeadWants(*head_, true);
}

void Tickets::SetHeadWants(const Ticket& ticket, bool wants) {
  for (const Need& need : ticket.needs) {
    Page& p = m_.page(need.request.page);
    const unsigned bits = wants ? 1U << need.request.tier : 0;
    p.head_wants = static_cast<std::uint8_t>(bits);
    m_.facts.Update(need.request.page);
  }
}

void Tickets::Grant(Ticket& ticket) {
  ticket.granted = true;
  m_.tasks_since_progress = 0;
  std::erase(m_.pending, &ticket);
  if (!ticket.needs.empty())
    ++m_.holders.try_emplace(ticket.op, Holder{ticket.lane, ticket.nested}).first->second.tickets;
  GrantTicket grant{ticket.number, {}};
  grant.frames.reserve(ticket.needs.size());
  for (Need& need : ticket.needs) {
    const PageIndex index = need.request.page;
    Page& p = m_.page(index);
    p.head_wants = 0;
    ++p.pins;
    ++m_.pinned_pages;
    if (IsWrite(need.request.mode)) {
      p.write_pinned = true;
      if (!p.copies[need.request.tier].under_way) m_.copies.PinForWrite(index, need.request.tier);
    }
    grant.frames.push_back(p.copies[need.request.tier].frame);
    p.copies[need.request.tier].leaving = false;
    m_.facts.TellAccess(index, need.request.tier);
    m_.facts.Update(index);
  }
  m_.Emit(std::move(grant));
  NoteHead();
  if (ticket.needs.empty()) Forget(ticket.number);
}

void Tickets::On(const Release& event) {
  const auto found = m_.live_tickets.find(event.ticket);
  if (found == m_.live_tickets.end() || !found->second->granted) return;
  Ticket& ticket = *found->second;
  for (PageIndex index : event.pages) {
    Page& p = m_.page(index);
    const auto held = std::find_if(
        p.queue.begin(), p.queue.end(), [&](const Need* need) { return need->ticket == &ticket; });
    if (held == p.queue.end()) continue;  // an earlier release is harmless
    if (p.copies[(*held)->request.tier].under_way) {
      late_releases_[index].push_back(ticket.number);
      continue;
    }
    --ticket.pinned;
    if (--(*held)->request.leases > 0) continue;
    const bool write = IsWrite((*held)->request.mode);
    p.queue.erase(held);
    --p.pins;
    --m_.pinned_pages;
    if (write) p.write_pinned = false;
    if (p.pins == 0) m_.goals.Reconsider(index);
    RefreshLocks(index);
    m_.facts.Update(index);
  }
  if (ticket.pinned > 0) return;
  if (--m_.holders.at(ticket.op).tickets == 0) m_.holders.erase(ticket.op);
  m_.plan_follower.EndPlannedStep(ticket.position);
  Forget(ticket.number);
}

void Tickets::On(const Cancel& event) {
  const auto found = m_.live_tickets.find(event.ticket);
  if (found == m_.live_tickets.end() || found->second->granted) return;
  FailTicketWith(*found->second, FailTicket{event.ticket, TicketFailure::kCancelled});
}

void Tickets::FailTicketWith(Ticket& ticket, FailTicket failure) {
  failure.ticket = ticket.number;
  m_.tasks_since_progress = 0;
  std::erase(m_.pending, &ticket);
  if (head_ == &ticket) SetHeadWants(ticket, false);
  NoteHead();
  m_.Emit(failure);
  Dequeue(ticket);
  Forget(ticket.number);
  m_.pump_again = true;
}

void Tickets::Dequeue(Ticket& ticket) {
  for (Need& need : ticket.needs) {
    const PageIndex index = need.request.page;
    std::erase(m_.page(index).queue, &need);
    m_.frames.DropHeld(index);
    RefreshLocks(index);
    m_.facts.Update(index);
  }
}

void Tickets::Forget(TicketNumber number) { m_.live_tickets.erase(number); }

void Tickets::On(const GrantUnderWay& event) {
  const auto found = m_.live_tickets.find(event.ticket);
  if (found == m_.live_tickets.end() || found->second->granted) return;
  Ticket& ticket = *found->second;
  ticket.takes_under_way = true;
  for (const Need& need : ticket.needs) Recheck(need.request.page);
}

void Tickets::ReleaseLate(PageIndex index) {
  const auto found = late_releases_.find(index);
  if (found == late_releases_.end()) return;
  const std::vector<TicketNumber> tickets = std::move(found->second);
  late_releases_.erase(found);
  for (const TicketNumber ticket : tickets) On(Release{ticket, {index}});
}

}  // namespace sluice::core
