#pragma once

#include <span>

#include "runtime/analysis/recompute/recomputable.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// The schedule with these tensors discarded after `last_use` and made again before `next_use`: the
/// ops from there on use a tensor of its own, in pages of its own, that an op more writes. That op
/// runs in the lane and the tiers of the writer, reads what it read, takes `recompute_seconds`, and
/// is called NAME again. Later accesses of other lanes to its inputs wait for it. `tensors` are of
/// FindRecomputable(ToSchedule(schedule)), any of them, in its order.
FileSchedule WithMadeAgain(const FileSchedule& schedule,
                           std::span<const analysis::Recomputable> tensors);

}  // namespace sluice::sim
