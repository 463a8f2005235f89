#include "runtime/engine/data/page_owners.h"

#include "base/check.h"

namespace sluice::engine {

void PageOwners::Add(const std::shared_ptr<Segment>& segment) {
  if (pages_.size() < segment->end_page()) pages_.resize(segment->end_page());
  for (PageIndex page = segment->parts().first_page; page < segment->end_page(); ++page) {
    SLUICE_CHECK(pages_[page].segment == nullptr, "a page belongs to one segment");
    pages_[page] = Owned{segment, false};
  }
}

void PageOwners::MarkDying(PageRun run) {
  for (PageIndex page = run.first; page < run.first + run.pages; ++page) pages_[page].dying = true;
}

std::shared_ptr<Segment> PageOwners::Remove(PageRun run) {
  std::shared_ptr<Segment> segment;
  for (PageIndex page = run.first; page < run.first + run.pages; ++page) {
    segment = std::move(pages_[page].segment);
    pages_[page] = Owned{};
  }
  return segment;
}

const std::shared_ptr<Segment>& PageOwners::Owner(PageIndex page) const {
  SLUICE_CHECK(page < pages_.size() && pages_[page].segment != nullptr,
               "the core names pages that exist");
  return pages_[page].segment;
}

bool PageOwners::Usable(core::SegmentIndex segment, PageRun run) const {
  for (PageIndex page = run.first; page < run.first + run.pages; ++page) {
    const bool known = page < pages_.size() && pages_[page].segment != nullptr;
    if (!known || pages_[page].dying) return false;
    if (pages_[page].segment->parts().index != segment) return false;
  }
  return true;
}

const LeaseDraft* PageOwners::FirstUnusable(const TicketDraft& draft) const {
  for (const LeaseDraft& access : draft.accesses) {
    if (!Usable(access.tensor->segment, {access.first_page, access.pages})) return &access;
  }
  return nullptr;
}

}  // namespace sluice::engine
