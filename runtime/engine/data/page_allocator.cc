#include "runtime/engine/data/page_allocator.h"

#include <iterator>

#include "base/check.h"

namespace sluice::engine {

std::optional<PageIndex> PageAllocator::Allocate(std::uint32_t pages) {
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    const auto [first, length] = *run;
    if (length < pages) continue;
    free_.erase(run);
    if (length > pages) free_.emplace(first + pages, length - pages);
    return first;
  }
  if (end_ + pages >= core::kNoPage) return std::nullopt;
  const auto first = static_cast<PageIndex>(end_);
  end_ += pages;
  return first;
}

void PageAllocator::Free(PageIndex first, std::uint32_t pages) {
  auto next = free_.lower_bound(first);
  SLUICE_CHECK(next == free_.end() || first + pages <= next->first, "a page is freed once");
  if (next != free_.end() && next->first == first + pages) {
    pages += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    SLUICE_CHECK(before->first + before->second <= first, "a page is freed once");
    if (before->first + before->second == first) {
      before->second += pages;
      return;
    }
  }
  free_.emplace(first, pages);
}

}  // namespace sluice::engine
