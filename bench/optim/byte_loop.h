#pragma once

#include <cstddef>
#include <span>

#include "bench/optim/update_data.h"

namespace sluice::bench {

/// Elements that the loop takes of each stream at a time.
inline constexpr std::size_t kByteLoopElements = 64;

/// The triad-like loop. It goes through all streams in step, as an update does, with the widest
/// instructions of the processor. It reads each stream, and writes back the streams that an update
/// writes.
///
/// Each written element has its lowest bit flipped, since a processor may leave out a write that
/// changes nothing. Returns the sum of all elements read, so that the compiler keeps every read.
/// REQUIRES: multiples of kByteLoopElements; elements of 1, 2 or 4 bytes.
unsigned MoveBytes(std::span<const ByteStream> streams, std::size_t begin, std::size_t end);

}  // namespace sluice::bench
