#include "runtime/core/machine/discards.h"

#include <utility>

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {

void Discards::On(const DiscardPages& event) {
  Kill(TicketKind::kDiscard, event.first_page, event.pages);
}

void Discards::On(const FreePages& event) {
  Kill(TicketKind::kFree, event.first_page, event.pages);
}

/// Discards and frees queue like writers, so that they act after what was asked for before them.
void Discards::Kill(TicketKind kind, PageIndex first_page, std::uint32_t pages) {
  auto ticket = std::make_unique<Ticket>();
  ticket->kind = kind;
  ticket->arrival = m_.next_arrival++;
  ticket->first_page = first_page;
  ticket->pages_left = pages;
  ticket->needs.reserve(pages);
  Ticket* raw = ticket.get();
  kills_.push_back(std::move(ticket));
  for (PageIndex i = first_page; i < first_page + pages; ++i) {
    SLUICE_CHECK(i < m_.pages.size() && m_.pages[i].exists, "only living pages are discarded");
    m_.book.NoteDeath(i);
    raw->needs.push_back(Need{raw, PageRequest{.page = i, .mode = PageMode::kOverwrite}});
    if (kind == TicketKind::kFree) m_.page(i).dying = true;
  }
  if (pages == 0 && kind == TicketKind::kFree) m_.Emit(PagesFreed{first_page, 0});
  for (PageIndex i = first_page; i < first_page + pages; ++i) {
    m_.page(i).queue.push_back(&raw->needs[i - first_page]);
    m_.tickets.RefreshLocks(i);
    m_.facts.Update(i);
  }
}

bool Discards::FinishKill(PageIndex index) {
  Page& p = m_.page(index);
  if (p.tasks > 0 || p.pins > 0) return false;
  Ticket& ticket = *p.queue.front()->ticket;
  p.queue.erase(p.queue.begin());
  KillContent(index);
  if (ticket.kind == TicketKind::kFree) {
    if (!p.read_only) --m_.tiers[p.lowest].committed;
    m_.goals.Remove(index);
    m_.facts.TellFreed(index);
    for (TierIndex t = 0; t < m_.tiers.size(); ++t) m_.frames.SetMappedTo(index, t, kNoFrame);
    p = Page{};
  } else {
    m_.goals.Reconsider(index);
  }
  if (--ticket.pages_left == 0 && ticket.kind == TicketKind::kFree) {
    m_.Emit(PagesFreed{ticket.first_page, static_cast<std::uint32_t>(ticket.needs.size())});
  }
  m_.pump_again = true;
  return true;
}

void Discards::KillContent(PageIndex index) {
  Page& p = m_.page(index);
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    if (p.copies[t].state != CopyState::kNone) {
      m_.frames.DropCopy(index, t);
      ++m_.counters.dropped_dead;
    }
  }
  m_.frames.DropStale(index);
  m_.frames.DropHeld(index);
  if (p.written()) --m_.tiers[p.lowest].written;
  p.content = false;
  p.file_home = false;
  p.lost = false;
  m_.goals.EndPrefetch(p, &m_.counters.prefetch_wasted);
  p.hint_tier = kNoTier;
}

void Discards::ForgetFinished() {
  std::erase_if(kills_, [](const auto& kill) { return kill->pages_left == 0; });
}

}  // namespace sluice::core
