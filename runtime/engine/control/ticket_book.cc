#include "runtime/engine/control/ticket_book.h"

#include <utility>

#include "base/check.h"

namespace sluice::engine {

void TicketBook::Add(std::shared_ptr<internal::TicketState> ticket, Clock::time_point now) {
  const core::TicketNumber number = ticket->number();
  const std::size_t accesses = ticket->draft().accesses.size();
  Entry entry;
  entry.ticket = std::move(ticket);
  entry.released.resize(accesses);
  entry.leases_left = static_cast<std::uint32_t>(accesses);
  entry.since = now;
  SLUICE_CHECK(entries_.emplace(number, std::move(entry)).second, "ticket numbers are unique");
  ++waiting_;
}

void TicketBook::Grant(Entry* entry, Clock::time_point now) {
  if (!entry->stall_reported) --waiting_;
  entry->granted = true;
  entry->since = now;
}

void TicketBook::Erase(core::TicketNumber number) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  if (!found->second.granted && !found->second.stall_reported) --waiting_;
  entries_.erase(found);
}

TicketBook::Entry* TicketBook::Find(core::TicketNumber number) {
  const auto found = entries_.find(number);
  return found == entries_.end() ? nullptr : &found->second;
}

void TicketBook::TellWaits(const core::Core& core) {
  core.Waits(&waits_);
  for (const core::TicketWait& wait : waits_) {
    Entry* entry = Find(wait.ticket);
    if (entry == nullptr || entry->waits_for == wait.waits_for) continue;
    entry->waits_for = wait.waits_for;
    entry->ticket->NoteWait(wait.waits_for);
  }
}

void TicketBook::AppendPages(const LeaseDraft& access, std::vector<PageIndex>* pages) {
  for (std::uint32_t i = 0; i < access.pages; ++i) pages->push_back(access.first_page + i);
}

void TicketBook::Release(const ReleaseNotice& notice, std::vector<PageIndex>* pages) {
  Entry* entry = Find(notice.ticket);
  if (entry == nullptr || entry->released[notice.access]) return;
  entry->released[notice.access] = true;
  AppendPages(entry->ticket->draft().accesses[notice.access], pages);
  if (--entry->leases_left == 0) Erase(notice.ticket);
}

core::Release TicketBook::ReleaseAll(core::TicketNumber number) {
  const Entry* entry = Find(number);
  SLUICE_CHECK(entry != nullptr, "only a known ticket is released");
  core::Release event{number, {}};
  for (std::size_t i = 0; i < entry->released.size(); ++i) {
    if (!entry->released[i]) AppendPages(entry->ticket->draft().accesses[i], &event.pages);
  }
  Erase(number);
  return event;
}

namespace {

/// Whether a lease of one keeps the other from being granted.
bool Excludes(const LeaseDraft& held, const LeaseDraft& wanted) {
  const bool overlap = held.first_page < wanted.first_page + wanted.pages &&
                       wanted.first_page < held.first_page + held.pages;
  return overlap && (held.mode != AccessMode::kRead || wanted.mode != AccessMode::kRead);
}

}  // namespace

TicketBook::Stall TicketBook::HolderOf(const LeaseDraft& wanted, bool same_page) const {
  Stall stall{.wanted = &wanted, .same_page = same_page};
  for (const auto& [number, entry] : entries_) {
    if (!entry.granted || (stall.holds != nullptr && entry.since >= stall.holds->since)) continue;
    const std::vector<LeaseDraft>& accesses = entry.ticket->draft().accesses;
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      if (entry.released[i]) continue;
      if (!(same_page ? Excludes(accesses[i], wanted) : accesses[i].tier == wanted.tier)) continue;
      stall.holds = &entry;
      stall.held = &accesses[i];
      break;
    }
  }
  return stall;
}

std::vector<TicketBook::Stall> TicketBook::TakeStalled(Clock::time_point now,
                                                       Clock::duration limit,
                                                       bool idle) {
  std::vector<Stall> stalls;
  for (auto& [number, entry] : entries_) {
    if (entry.granted || entry.stall_reported || now - entry.since <= limit) continue;
    for (const bool same_page : {true, false}) {
      if (entry.stall_reported || (!same_page && !idle)) continue;
      for (const LeaseDraft& wanted : entry.ticket->draft().accesses) {
        Stall stall = HolderOf(wanted, same_page);
        if (stall.holds == nullptr) continue;
        stall.waits = &entry;
        stalls.push_back(stall);
        entry.stall_reported = true;
        --waiting_;
        break;
      }
    }
  }
  return stalls;
}

}  // namespace sluice::engine
