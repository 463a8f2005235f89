#pragma once

#include <cstdint>

#include "tests/faults/cases/fault_cases.h"

namespace sluice::faults {

/// Attempts that a fault strikes, one in each run of the trace.
struct LoopStride {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
};

/// The counter loop. It runs the fixed trace again and again, with the fault at one attempt after
/// the other, until a trace ends without a strike. Attempts are counted as they reach the engine,
/// retries and second reads included. The count covers the direction and the kind of page of the
/// case.
///
/// After each run, every surviving tensor must be exact to the byte, and every failure must have
/// its typed error. In virtual time the last attempt is struck in any case, and a run just beyond
/// it must be untouched.
/// The loop fails the current test, and stops at the first number that does.
void RunCounterLoop(const FaultCase& fault, Medium medium, const LoopStride& stride);

}  // namespace sluice::faults
