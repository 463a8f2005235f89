#pragma once

#include <algorithm>
#include <vector>

#include "runtime/core/types.h"

namespace sluice::core {

/// Pages at home in each frame of a tier: those whose addresses are mapped to the frame.
class FrameHomes {
 public:
  explicit FrameHomes(FrameIndex frames) : pages_(frames) {}

  /// The pages at home in the frame, in any order.
  const std::vector<PageIndex>& PagesOf(FrameIndex frame) const { return pages_[frame]; }

  /// Moves the page's home from `from` to `to`; kNoFrame: no home.
  void Move(PageIndex page, FrameIndex from, FrameIndex to) {
    if (from == to) return;
    if (from != kNoFrame) std::erase(pages_[from], page);
    if (to != kNoFrame) pages_[to].push_back(page);
  }

 private:
  std::vector<std::vector<PageIndex>> pages_;
};

}  // namespace sluice::core
