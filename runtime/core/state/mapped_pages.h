#pragma once

#include <span>
#include <vector>

#include "runtime/core/types.h"

namespace sluice::core {

/// Pages by the frame of a tier that their addresses are mapped to.
class MappedPages {
 public:
  explicit MappedPages(FrameIndex frames) : pages_(frames) {}

  /// Pages that are mapped to the frame, in any order.
  std::span<const PageIndex> PagesOf(FrameIndex frame) const { return pages_[frame]; }

  /// Moves the page from frame `from` to `to`; kNoFrame: it is not mapped.
  void Move(PageIndex page, FrameIndex from, FrameIndex to) {
    if (from == to) return;
    if (from != kNoFrame) std::erase(pages_[from], page);
    if (to != kNoFrame) pages_[to].push_back(page);
  }

 private:
  std::vector<std::vector<PageIndex>> pages_;
};

}  // namespace sluice::core
