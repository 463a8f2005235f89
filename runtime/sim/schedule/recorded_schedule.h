#pragma once

#include <cstdint>

#include "runtime/sim/schedule/file_schedule.h"
#include "sluice/schedule.h"

namespace sluice::sim {

/// A schedule file's iteration as a runtime would have recorded it: the ops in their order in the
/// file, with their lanes. `after` has no place there and is left out. Accesses that are merged
/// take the sum of their seconds to be made again, if all have them.
///
/// Bytes that are only read are read. Bytes that are read and written are read and written. Bytes
/// that are only written are overwritten. A tensor that is not persistent is discarded after the
/// last op that touches it; one that no op touches is never discarded. An input (not persistent,
/// read before anything writes it) is thus read while it has no content: its pages are there at no
/// cost, and nothing has to bring them back.
///
/// Tensors of one segment keep their places in it, any other has a segment of its own.
/// REQUIRES: page_bytes > 0.
Schedule ToSchedule(const FileSchedule& schedule, std::uint64_t page_bytes);

}  // namespace sluice::sim
