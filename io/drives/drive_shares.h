#pragma once

#include <span>
#include <vector>

#include "io/store/page_store.h"

namespace sluice::io {

/// The part of `slots` for each drive, in proportion to its rate (any unit, above 0), but at least
/// a tenth of an even part. Together they are `slots`; where those are fewer than the drives, each
/// gets one.
std::vector<SlotIndex> DivideSlots(SlotIndex slots, std::span<const double> rates);

/// Slots of a drive beyond its part, in place of slots that are retired: one for each 512, and at
/// least one.
SlotIndex SpareSlots(SlotIndex share);

}  // namespace sluice::io
