#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/core/types.h"

namespace sluice::core {

/// A page takes a frame, or gives it back.
struct FrameEvent {
  PageIndex page = 0;
  bool comes = false;
};

/// Time that a page spends in a frame during an iteration, in events of the tier.
struct Stay {
  PageIndex page = 0;
  std::uint32_t begin = 0;  ///< event at which the page takes a frame; 0: it had one before
  std::uint32_t end = 0;    ///< event at which the page gives the frame back
  friend bool operator==(const Stay&, const Stay&) = default;
};

/// Stays of an iteration by its events, sorted by page, then begin. `owners`: page in each frame at
/// the end, kNoPage in a free one. Pages that have a frame then and no event were there all along.
std::vector<Stay> StaysOf(std::span<const FrameEvent> events, std::span<const PageIndex> owners);

/// Whether, and where, a page is mapped: the frame, or kNoFrame.
using MappedTo = std::function<FrameIndex(PageIndex)>;

/// A frame for each stay, as `stays` has them, that is free during it, or kNoFrame. Pages that are
/// in `owners` keep their frames, so that the next iteration begins as foreseen. The others are
/// given frames as intervals are coloured, in the order in which they first come: one for all stays
/// of a page, else one for each. It is the frame that the page is mapped to, if that is free, else
/// the first one that is free. Pages that are mapped come first, as others take any frame as well.
/// O(n log n): of very many pages, some may find no frame though there is one.
std::vector<FrameIndex> ColourStays(std::span<const Stay> stays,
                                    std::span<const PageIndex> owners,
                                    const std::vector<bool>& usable,
                                    const MappedTo& mapped_to);

}  // namespace sluice::core
