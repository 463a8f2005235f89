#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "runtime/core/types.h"

namespace sluice::engine {

/// Hands out runs of page indices, first fit. Threads: externally synchronised.
class PageAllocator {
 public:
  /// Returns the first of `pages` free indices in a row; none when the index space is used up.
  std::optional<PageIndex> Allocate(std::uint32_t pages);
  /// REQUIRES: the run was allocated and not given back.
  void Free(PageIndex first, std::uint32_t pages);

 private:
  /// Lengths of free runs by first index; disjoint, never adjacent.
  std::map<PageIndex, std::uint32_t> free_;
  std::uint64_t end_ = 0;  ///< indices from here on were never used
};

}  // namespace sluice::engine
