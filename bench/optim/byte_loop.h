#pragma once

#include <cstddef>
#include <span>

#include "bench/optim/update_data.h"

namespace sluice::bench {

/// Elements that it takes of each stream at a time.
inline constexpr std::size_t kByteLoopElements = 64;

/// The triad-like loop: goes through all streams in step, as an update does, reads each and writes
/// back those that an update writes, unchanged, with the widest instructions of the processor. The
/// sum of all, so that no read can be left out. REQUIRES: multiples of kByteLoopElements.
unsigned MoveBytes(std::span<const ByteStream> streams, std::size_t begin, std::size_t end);

}  // namespace sluice::bench
