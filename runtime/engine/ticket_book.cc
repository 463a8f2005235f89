#include "runtime/engine/ticket_book.h"

#include <utility>

#include "base/check.h"

namespace sluice::engine {

void TicketBook::Add(std::shared_ptr<internal::TicketState> ticket) {
  const core::TicketNumber number = ticket->number();
  const std::size_t accesses = ticket->plan().accesses.size();
  Entry entry;
  entry.ticket = std::move(ticket);
  entry.released.resize(accesses);
  entry.leases_left = static_cast<std::uint32_t>(accesses);
  SLUICE_CHECK(entries_.emplace(number, std::move(entry)).second, "ticket numbers are unique");
}

TicketBook::Entry* TicketBook::Find(core::TicketNumber number) {
  const auto found = entries_.find(number);
  return found == entries_.end() ? nullptr : &found->second;
}

void TicketBook::AppendPages(const AccessPlan& access, std::vector<PageIndex>* pages) {
  for (std::uint32_t i = 0; i < access.pages; ++i) pages->push_back(access.first_page + i);
}

void TicketBook::Release(const ReleaseNotice& notice, std::vector<PageIndex>* pages) {
  Entry* entry = Find(notice.ticket);
  if (entry == nullptr || entry->released[notice.access]) return;
  entry->released[notice.access] = true;
  AppendPages(entry->ticket->plan().accesses[notice.access], pages);
  if (--entry->leases_left == 0) Erase(notice.ticket);
}

core::Release TicketBook::ReleaseAll(core::TicketNumber number) {
  const Entry* entry = Find(number);
  SLUICE_CHECK(entry != nullptr, "only a known ticket is released");
  core::Release event{number, {}};
  for (std::size_t i = 0; i < entry->released.size(); ++i) {
    if (!entry->released[i]) AppendPages(entry->ticket->plan().accesses[i], &event.pages);
  }
  Erase(number);
  return event;
}

}  // namespace sluice::engine
