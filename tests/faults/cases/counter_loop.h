#pragma once

#include <cstdint>

#include "tests/faults/cases/fault_cases.h"

namespace sluice::faults {

/// Which attempts a fault strikes, one in each run of the trace.
struct LoopStride {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
};

/// The counter loop: the fixed trace again and again, with the fault at one attempt after the other
/// until the trace ends without it. N counts the attempts that reach the engine (retries and second
/// reads included) of the direction, and of the kind of page, that the case is about. After each
/// run every surviving tensor was exact to the byte and everything that failed gave its typed
/// error; in virtual time the last attempt is struck in any case, and a run just beyond it must be
/// untouched. Fails the current test, and stops at the first number that does.
void RunCounterLoop(const FaultCase& fault, Medium medium, const LoopStride& stride);

}  // namespace sluice::faults
