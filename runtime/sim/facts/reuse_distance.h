#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sim/schedule/extents.h"
#include "runtime/sim/schedule/lifetimes.h"

namespace sluice::sim {

/// Bytes that were used again, and the number of other bytes used since.
struct Reuse {
  std::uint64_t distance_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint32_t op = 0;  ///< op that used the bytes again
};

/// All uses of bytes that were used before, by rising distance, in an iteration that follows one of
/// its like. The distance is the sum of all distinct bytes touched since the op that used them
/// last. Bytes of the op that uses them now are included. A memory that drops the least recently
/// used bytes keeps them if it is that large. Time: uses times the logarithm of ops.
std::vector<Reuse> MeasureReuse(const Extents& extents,
                                const OpVisits& visits,
                                const Lifetimes& lifetimes);

/// The smallest distance that covers `share`, from 0 to 1, of all bytes that were used again; 0
/// when there are none.
std::uint64_t ReuseQuantile(const std::vector<Reuse>& reuses, double share);

}  // namespace sluice::sim
