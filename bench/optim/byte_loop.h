#pragma once

#include <cstddef>
#include <span>

#include "bench/optim/update_data.h"

namespace sluice::bench {

/// Elements that it takes of each stream at a time.
inline constexpr std::size_t kByteLoopElements = 64;

/// The triad-like loop: goes through all streams in step, as an update does, reads each and writes
/// back those that an update writes, with the widest instructions of the processor. Every element
/// that is written has its lowest bit flipped: a processor may leave out a write of what is there.
/// The sum of all that was read, so that no read can be left out. REQUIRES: multiples of
/// kByteLoopElements; elements of 1, 2 or 4 bytes.
unsigned MoveBytes(std::span<const ByteStream> streams, std::size_t begin, std::size_t end);

}  // namespace sluice::bench
