#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/core/machine/core_impl.h"

namespace sluice::core {

void Core::Impl::On(const Acquire& event) {
  const bool followed = book_.following();
  const bool expected = book_.Advance(event);
  options_.policy->OnStep(book_.now());
  if (expected) {
    for (const PageRequest& request : event.requests) SetNextUse(request.page, book_.now());
  } else if (followed && !book_.following()) {
    RefreshNextUses();  // diverged: what was foreseen no longer counts
    LeavePlan();
  }
  if (RefuseTooLarge(event) || RefuseLost(event)) {
    for (const PageRequest& request : event.requests) UpdateFacts(request.page);
    return;
  }
  auto ticket = std::make_unique<Ticket>();
  ticket->number = event.ticket;
  ticket->op = event.op;
  ticket->lane = event.lane;
  if (expected) ticket->position = book_.last();
  ticket->needs.reserve(event.requests.size());
  for (const PageRequest& request : event.requests) {
    SLUICE_CHECK(
        request.page < pages_.size() && pages_[request.page].exists && !pages_[request.page].dying,
        "an acquire names living pages");
    SLUICE_CHECK(request.tier < last_tier(), "nothing is leased in the last tier");
    ticket->needs.push_back(Need{ticket.get(), request});
    ticket->pinned += request.leases;
  }
  QueueNeeds(std::move(ticket));
  if (expected) TakePlannedStep(book_.last());
}

bool Core::Impl::RefuseTooLarge(const Acquire& event) {
  std::array<std::uint32_t, kTiersMax> pages{};
  for (const PageRequest& request : event.requests) ++pages[request.tier];
  for (TierIndex t = 0; t < last_tier(); ++t) {
    if (pages[t] <= OpFramesMax(t)) continue;
    Emit(FailTicket{event.ticket, TicketFailure::kTooLarge, kNoPage, t, pages[t], OpFramesMax(t)});
    return true;
  }
  return false;
}

bool Core::Impl::RefuseLost(const Acquire& event) {
  for (const PageRequest& request : event.requests) {
    const Page& p = pages_[request.page];
    if (!p.lost || request.mode == PageMode::kOverwrite) continue;
    const bool dies = std::any_of(p.queue.begin(), p.queue.end(), [](const Need* need) {
      return need->ticket->kind != TicketKind::kAcquire;
    });
    if (dies) continue;  // a discard comes first
    Emit(FailTicket{event.ticket, TicketFailure::kPageLost, request.page});
    return true;
  }
  return false;
}

void Core::Impl::QueueNeeds(std::unique_ptr<Ticket> owned) {
  Ticket& ticket = *owned;
  ticket.arrival = next_arrival_++;
  ticket.unready = static_cast<std::uint32_t>(ticket.needs.size());
  pending_.push_back(&ticket);
  SLUICE_CHECK(tickets_.emplace(ticket.number, std::move(owned)).second,
               "ticket numbers are unique");
  NoteHead();
  for (std::uint32_t i = 0; i < ticket.needs.size(); ++i) {
    Need& need = ticket.needs[i];
    Page& p = page(need.request.page);
    p.queue.push_back(&need);
    RefreshLocks(need.request.page);
    UpdateFacts(need.request.page);
    CountPrefetch(p, need.request.tier, need.ready);
  }
}

void Core::Impl::CountPrefetch(Page& p, TierIndex tier, bool ready) {
  const bool hit = ready && p.prefetched_tier == tier;
  EndPrefetch(p, hit ? &counters_.prefetch_hit : &counters_.prefetch_late);
  p.hint_tier = kNoTier;
  p.given_up = p.refused = false;
}

/// A need is locked when no earlier one of its page conflicts: any number of readers, or one
/// writer.
void Core::Impl::RefreshLocks(PageIndex index) {
  Page& p = page(index);
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

bool Core::Impl::IsReady(const Need& need) const {
  const Page& p = pages_[need.request.page];
  const PageCopy& copy = p.copies[need.request.tier];
  if (!need.locked) return false;
  if (copy.transit || (need.request.map && !copy.mapped)) return false;
  const bool under_way = copy.under_way && need.ticket->takes_under_way;
  if (IsWrite(need.request.mode) && p.tasks > (under_way ? 1 : 0)) return false;
  if (need.request.mode == PageMode::kOverwrite && copy.state == CopyState::kPlaced) return true;
  return under_way || copy.state == CopyState::kValid;
}

void Core::Impl::MarkReady(Need& need, bool ready) {
  Ticket& ticket = *need.ticket;
  if (need.ready != ready) {
    need.ready = ready;
    ++changes_;
    ticket.unready += ready ? -1u : 1u;
  }
  const auto ordinal = static_cast<NeedQueue::Ordinal>(&need - ticket.needs.data());
  if (ready) ticket.queue.Remove(ordinal);
  if (!ready && need.locked) ticket.queue.Add(ordinal);
}

/// Looks again at everybody who waits for the page, after anything about it has changed.
void Core::Impl::Recheck(PageIndex index) {
  Page& p = page(index);
  for (std::size_t i = 0; i < p.queue.size(); ++i) {
    Need& need = *p.queue[i];
    Ticket& ticket = *need.ticket;
    if (ticket.kind != TicketKind::kAcquire) {
      if (i == 0 && FinishKill(index)) {
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
void Core::Impl::NoteHead() {
  Ticket* const head = pending_.empty() ? nullptr : pending_.front();
  if (head == head_) return;
  head_ = head;
  if (head_ == nullptr) return;
  SetHeadWants(*head_, true);
}

void Core::Impl::SetHeadWants(const Ticket& ticket, bool wants) {
  for (const Need& need : ticket.needs) {
    Page& p = page(need.request.page);
    const unsigned bits = wants ? 1U << need.request.tier : 0;
    p.head_wants = static_cast<std::uint8_t>(bits);
    UpdateFacts(need.request.page);
  }
}

void Core::Impl::Grant(Ticket& ticket) {
  ticket.granted = true;
  tasks_since_progress_ = 0;
  std::erase(pending_, &ticket);
  if (!ticket.needs.empty())
    ++holders_.try_emplace(ticket.op, Holder{ticket.lane}).first->second.tickets;
  GrantTicket grant{ticket.number, {}};
  grant.frames.reserve(ticket.needs.size());
  for (Need& need : ticket.needs) {
    const PageIndex index = need.request.page;
    Page& p = page(index);
    p.head_wants = 0;
    ++p.pins;
    ++pinned_pages_;
    if (IsWrite(need.request.mode)) {
      p.write_pinned = true;
      if (!p.copies[need.request.tier].under_way) PinForWrite(index, need.request.tier);
    }
    grant.frames.push_back(p.copies[need.request.tier].frame);
    p.copies[need.request.tier].leaving = false;
    TellAccess(index, need.request.tier);
    UpdateFacts(index);
  }
  Emit(std::move(grant));
  NoteHead();
  if (ticket.needs.empty()) Forget(ticket.number);
}

/// Makes the copy in `tier` the page's only one.
void Core::Impl::PinForWrite(PageIndex index, TierIndex tier) {
  Page& p = page(index);
  SLUICE_CHECK(p.tasks == 0 && p.pins == 1,
               "I4: a page under a write lease is nowhere else in use");
  for (TierIndex t = 0; t < tiers_.size(); ++t) {
    if (t == tier || p.copies[t].state == CopyState::kNone) continue;
    if (t == last_tier()) {
      // The old slot is kept until a newer generation is acknowledged.
      SLUICE_CHECK(p.stale_frame == kNoFrame, "a page has at most one stale slot");
      p.stale_frame = p.copies[t].frame;
      p.copies[t] = PageCopy{};
    } else {
      DropCopy(index, t);
    }
  }
  SLUICE_CHECK(!p.read_only, "I6: a page that is only read is never written");
  ++p.generation;
  p.copies[tier].state = CopyState::kValid;
  p.content = true;
  p.lost = false;
  p.file_home = false;
}

void Core::Impl::On(const Release& event) {
  const auto found = tickets_.find(event.ticket);
  if (found == tickets_.end() || !found->second->granted) return;
  Ticket& ticket = *found->second;
  for (PageIndex index : event.pages) {
    Page& p = page(index);
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
    --pinned_pages_;
    if (write) p.write_pinned = false;
    if (p.pins == 0) ReconsiderGoal(index);
    RefreshLocks(index);
    UpdateFacts(index);
  }
  if (ticket.pinned > 0) return;
  if (--holders_.at(ticket.op).tickets == 0) holders_.erase(ticket.op);
  EndPlannedStep(ticket.position);
  Forget(ticket.number);
}

void Core::Impl::On(const Cancel& event) {
  const auto found = tickets_.find(event.ticket);
  if (found == tickets_.end() || found->second->granted) return;
  FailTicketWith(*found->second, FailTicket{event.ticket, TicketFailure::kCancelled});
}

void Core::Impl::FailTicketWith(Ticket& ticket, FailTicket failure) {
  failure.ticket = ticket.number;
  tasks_since_progress_ = 0;
  std::erase(pending_, &ticket);
  if (head_ == &ticket) SetHeadWants(ticket, false);
  NoteHead();
  Emit(failure);
  Dequeue(ticket);
  Forget(ticket.number);
  pump_again_ = true;
}

void Core::Impl::Dequeue(Ticket& ticket) {
  for (Need& need : ticket.needs) {
    const PageIndex index = need.request.page;
    std::erase(page(index).queue, &need);
    DropHeld(index);
    RefreshLocks(index);
    UpdateFacts(index);
  }
}

void Core::Impl::Forget(TicketNumber number) { tickets_.erase(number); }

void Core::Impl::On(const DiscardPages& event) {
  Kill(TicketKind::kDiscard, event.first_page, event.pages);
}

void Core::Impl::On(const FreePages& event) {
  Kill(TicketKind::kFree, event.first_page, event.pages);
}

/// Discards and frees queue like writers, so that they act after what was asked for before them.
void Core::Impl::Kill(TicketKind kind, PageIndex first_page, std::uint32_t pages) {
  auto ticket = std::make_unique<Ticket>();
  ticket->kind = kind;
  ticket->arrival = next_arrival_++;
  ticket->first_page = first_page;
  ticket->pages_left = pages;
  ticket->needs.reserve(pages);
  Ticket* raw = ticket.get();
  kills_.push_back(std::move(ticket));
  for (PageIndex i = first_page; i < first_page + pages; ++i) {
    SLUICE_CHECK(i < pages_.size() && pages_[i].exists, "only living pages are discarded");
    book_.NoteDeath(i);
    raw->needs.push_back(Need{raw, PageRequest{.page = i, .mode = PageMode::kOverwrite}});
    if (kind == TicketKind::kFree) page(i).dying = true;
  }
  if (pages == 0 && kind == TicketKind::kFree) Emit(PagesFreed{first_page, 0});
  for (PageIndex i = first_page; i < first_page + pages; ++i) {
    page(i).queue.push_back(&raw->needs[i - first_page]);
    RefreshLocks(i);
    UpdateFacts(i);
  }
}

/// Kills the page of the discard or free at the head of its queue, once no task touches it.
bool Core::Impl::FinishKill(PageIndex index) {
  Page& p = page(index);
  if (p.tasks > 0 || p.pins > 0) return false;
  Ticket& ticket = *p.queue.front()->ticket;
  p.queue.erase(p.queue.begin());
  KillContent(index);
  if (ticket.kind == TicketKind::kFree) {
    if (!p.read_only) --tiers_[p.lowest].committed;
    RemoveGoal(index);
    TellFreed(index);
    for (TierIndex t = 0; t < tiers_.size(); ++t) SetMappedTo(index, t, kNoFrame);
    p = Page{};
  } else {
    ReconsiderGoal(index);
  }
  if (--ticket.pages_left == 0 && ticket.kind == TicketKind::kFree) {
    Emit(PagesFreed{ticket.first_page, static_cast<std::uint32_t>(ticket.needs.size())});
  }
  pump_again_ = true;
  return true;
}

void Core::Impl::KillContent(PageIndex index) {
  Page& p = page(index);
  for (TierIndex t = 0; t < tiers_.size(); ++t) {
    if (p.copies[t].state != CopyState::kNone) {
      DropCopy(index, t);
      ++counters_.dropped_dead;
    }
  }
  DropStale(index);
  DropHeld(index);
  p.content = false;
  p.file_home = false;
  p.lost = false;
  EndPrefetch(p, &counters_.prefetch_wasted);
  p.hint_tier = kNoTier;
}

}  // namespace sluice::core
