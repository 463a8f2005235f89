#include "runtime/core/plan/fixed_pages.h"

#include <algorithm>
#include <utility>

#include "runtime/core/machine/machine.h"

namespace sluice::core {

void FixedPages::BeginIteration(bool ends) {
  if (ends) EndIteration();
  begun_at_ = m_.next_arrival;
}

/// Pages that such leases hold, each with the fastest tier that one is in.
std::vector<FixedPages::Held> FixedPages::FindHeld() const {
  std::vector<Held> held;
  for (const auto& [number, ticket] : m_.live_tickets) {
    if (!ticket->granted || ticket->pinned == 0 || ticket->arrival >= ended_begun_at_) continue;
    for (const Need& need : ticket->needs) {
      if (need.request.leases > 0) held.push_back({need.request.page, need.request.tier});
    }
  }
  std::sort(held.begin(), held.end());
  const auto same_page = [](const Held& a, const Held& b) { return a.page == b.page; };
  held.erase(std::unique(held.begin(), held.end(), same_page), held.end());
  return held;
}

PagesByTier FixedPages::Count() const {
  PagesByTier count{};
  for (TierIndex t = 0; t < m_.last_tier(); ++t) count[t] = m_.tiers[t].written;
  for (const Held& held : FindHeld()) {
    const Page& p = m_.pages[held.page];
    if (!p.written() || p.lowest != held.tier) ++count[held.tier];
  }
  return count;
}

/// A page that the iteration writes has content at some time of it, if not now.
TierIndex FixedPages::LowestUnlessHeld(PageIndex page, bool writes) const {
  const Page& p = m_.pages[page];
  const bool stays = p.exists && !p.dying && (writes ? !p.file_home : p.written());
  return stays ? p.lowest : m_.last_tier();
}

TierIndex FixedPages::LowestOf(PageIndex page, bool writes, const std::vector<Held>& held) const {
  const TierIndex lowest = LowestUnlessHeld(page, writes);
  const auto found = std::lower_bound(held.begin(), held.end(), Held{page, 0});
  return found != held.end() && found->page == page ? std::min(lowest, found->tier) : lowest;
}

void FixedPages::LeaveOut(PlanInput* input) const {
  const std::vector<Held> held = FindHeld();
  std::vector<FrameIndex> fixed(m_.tiers.size(), 0);
  std::vector<PlanItem> items;
  PageIndex next = 0;  // first page that no item before has
  const auto count_others = [&](PageIndex end) {
    for (; next < end; ++next) ++fixed[LowestOf(next, false, held)];
  };
  for (PlanItem& item : input->items) {
    count_others(item.first_page);
    next = item.first_page + item.pages;
    const bool writes = std::any_of(item.uses.begin(), item.uses.end(), [](const PlanUse& use) {
      return use.mode != PageMode::kRead;
    });
    for (PageIndex page = item.first_page; page < next; ++page) {
      const TierIndex lowest = LowestOf(page, writes, held);
      const bool goes_on = page > item.first_page && items.back().lowest == lowest;
      if (!goes_on) {
        items.push_back({.first_page = page, .lowest = lowest, .uses = item.uses});
      }
      ++items.back().pages;
    }
  }
  count_others(static_cast<PageIndex>(m_.pages.size()));
  input->items = std::move(items);
  for (TierIndex t = 0; t < m_.last_tier(); ++t) {
    input->frames[t] -= std::min(input->frames[t], fixed[t]);
  }
}

}  // namespace sluice::core
