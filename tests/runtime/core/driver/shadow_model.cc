#include "tests/runtime/core/driver/shadow_model.h"

#include <algorithm>

#include "fmt/format.h"

namespace sluice::core {
namespace {

using Kind = ShadowRequest::Kind;

bool Conflicts(const ShadowRequest& earlier, PageMode mode) {
  return earlier.kind != Kind::kAcquire || earlier.mode != PageMode::kRead ||
         mode != PageMode::kRead;
}

}  // namespace

bool ShadowPage::write_leased() const {
  return std::any_of(requests.begin(), requests.end(), [](const ShadowRequest& request) {
    return request.granted && request.mode != PageMode::kRead;
  });
}

bool ShadowPage::freeing() const {
  return !requests.empty() && requests.back().kind == Kind::kFree;
}

void ShadowModel::Create(const CreateSegment& create, const PagesByTier& committed) {
  pages_.resize(std::max<std::size_t>(pages_.size(), create.first_page + create.pages));
  PagesByTier left = committed;
  TierIndex lowest = create.lowest;
  for (std::uint32_t i = 0; i < create.pages; ++i) {
    while (!create.read_only && lowest > 0 && left[lowest] == 0) --lowest;
    if (!create.read_only && left[lowest]-- == 0)
      verdict_->Fail("a segment has pages without capacity");
    ShadowPage& page = pages_[create.first_page + i];
    page = {.exists = true, .segment = create.segment, .lowest = lowest};
    page.reproducible = create.reproducible;
    if (create.file_home) page.stamp = *(page.file = NewStamp());
  }
}

void ShadowModel::Remove(PageIndex first_page, std::uint32_t pages) {
  for (PageIndex i = first_page; i < first_page + pages; ++i) {
    const ShadowPage& page = pages_[i];
    if (page.requests.size() != 1 || page.requests.front().kind != Kind::kFree) {
      verdict_->Fail(fmt::format("page {} is freed while earlier requests are not over", i));
    }
    pages_[i] = {};
  }
}

void ShadowModel::Request(const Acquire& acquire) {
  for (const PageRequest& request : acquire.requests) {
    std::deque<ShadowRequest>& requests = pages_[request.page].requests;
    auto place = requests.end();
    const bool dies = std::any_of(requests.begin(), requests.end(), [](const auto& each) {
      return each.kind != Kind::kAcquire;
    });
    if (acquire.nested && request.mode == PageMode::kRead && !dies) {
      const auto writer = std::find_if(requests.begin(), requests.end(), [](const auto& each) {
        return Conflicts(each, PageMode::kRead);
      });
      const bool within = std::any_of(requests.begin(), writer, [&](const ShadowRequest& each) {
        return each.granted && each.nested && each.lane == acquire.lane;
      });
      if (within) place = writer;
    }
    requests.insert(place,
                    {.ticket = acquire.ticket,
                     .lane = acquire.lane,
                     .nested = acquire.nested,
                     .mode = request.mode,
                     .leases_left = request.leases});
  }
}

void ShadowModel::Discard(PageIndex first_page, std::uint32_t pages) {
  for (PageIndex i = first_page; i < first_page + pages; ++i) {
    pages_[i].requests.push_back({.kind = Kind::kDiscard});
    Settle(&pages_[i]);
  }
}

void ShadowModel::Free(PageIndex first_page, std::uint32_t pages) {
  for (PageIndex i = first_page; i < first_page + pages; ++i) {
    pages_[i].requests.push_back({.kind = Kind::kFree});
  }
}

void ShadowModel::Grant(TicketNumber ticket, const PageRequest& request) {
  const auto found = Find(ticket, request.page);
  ShadowPage& page = pages_[request.page];
  if (found == page.requests.end()) return;
  for (auto earlier = page.requests.begin(); earlier != found; ++earlier) {
    if (!Conflicts(*earlier, request.mode)) continue;
    verdict_->Fail(fmt::format("ticket {} is granted page {} before ticket {}, which came first",
                               ticket,
                               request.page,
                               earlier->ticket));
  }
  found->granted = true;
  if (request.mode == PageMode::kRead) return;
  page.stamp = NewStamp();
  page.lost = false;
}

void ShadowModel::Withdraw(TicketNumber ticket, PageIndex page) {
  const auto found = Find(ticket, page);
  if (found == pages_[page].requests.end()) return;
  pages_[page].requests.erase(found);
  Settle(&pages_[page]);
}

bool ShadowModel::Release(TicketNumber ticket, PageIndex page) {
  const auto found = Find(ticket, page);
  if (found == pages_[page].requests.end()) return false;
  if (found->mode != PageMode::kRead) pages_[page].stamp = NewStamp();
  if (--found->leases_left > 0) return false;
  pages_[page].requests.erase(found);
  Settle(&pages_[page]);
  return true;
}

void ShadowModel::Lose(PageIndex index) {
  ShadowPage& page = pages_[index];
  if (page.stamp == kZeros) verdict_->Fail(fmt::format("page {} has nothing to lose", index));
  page.lost = true;
}

const ShadowPage& ShadowModel::page(PageIndex page) const {
  static const ShadowPage kNothing;
  return page < pages_.size() ? pages_[page] : kNothing;
}

std::deque<ShadowRequest>::iterator ShadowModel::Find(TicketNumber ticket, PageIndex page) {
  auto& requests = pages_[page].requests;
  const auto found =
      std::find_if(requests.begin(), requests.end(), [ticket](const ShadowRequest& request) {
        return request.kind == Kind::kAcquire && request.ticket == ticket;
      });
  if (found == requests.end()) {
    verdict_->Fail(fmt::format("ticket {} has no request of page {}", ticket, page));
  }
  return found;
}

void ShadowModel::Settle(ShadowPage* page) {
  while (!page->requests.empty() && page->requests.front().kind == Kind::kDiscard) {
    page->stamp = kZeros;
    page->lost = false;
    page->requests.pop_front();
  }
}

}  // namespace sluice::core
