#include "runtime/engine/stale_mappings.h"

#include <iterator>

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::engine {

void StaleMappings::Add(core::TierIndex tier, PageIndex page, SegmentPtr segment) {
  pages_.insert_or_assign({tier, page}, std::move(segment));
  if (pages_.size() >= kPagesMax) DropAll();
}

void StaleMappings::Forget(const Segment& segment) {
  std::erase_if(pages_, [&](const auto& entry) { return entry.second.get() == &segment; });
}

void StaleMappings::DropAll() {
  for (auto first = pages_.begin(); first != pages_.end();) {
    auto next = std::next(first);
    std::uint64_t pages = 1;
    while (next != pages_.end() && next->second == first->second &&
           next->first == std::pair(first->first.first, first->first.second + PageIndex(pages))) {
      ++next;
      ++pages;
    }
    DropRun(first, pages);
    first = next;
  }
  pages_.clear();
}

void StaleMappings::DropRun(Pages::iterator first, std::uint64_t pages) {
  const auto [tier, page] = first->first;
  const Segment& segment = *first->second;
  const absl::Status status =
      tiers_.memory(tier)->Unmap(segment.range(tier), segment.PageWithin(page), pages);
  if (status.ok()) return;
  logger_.Warning(fmt::format("{} page(s) from tensor '{}' on stay mapped after their eviction: {}",
                              pages,
                              segment.NameAt(page),
                              base::ToStd(status.message())));
}

}  // namespace sluice::engine
