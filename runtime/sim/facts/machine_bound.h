#pragma once

#include "runtime/analysis/bounds/time_bound.h"
#include "runtime/sim/simulator/machine.h"
#include "sluice/schedule.h"

namespace sluice::sim {

/// What bounds the time of `schedule` on `machine`: a bound for every simulation of it, from the
/// second iteration on. Of a large schedule less is tried, so that a bound costs a tenth of a
/// second at most.
analysis::TimeBoundOptions TimeBoundOptionsFor(const Machine& machine, const Schedule& schedule);

}  // namespace sluice::sim
