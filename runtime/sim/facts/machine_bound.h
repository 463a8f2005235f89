#pragma once

#include "runtime/analysis/bounds/time_bound.h"
#include "runtime/sim/simulator/machine.h"
#include "sluice/schedule.h"

namespace sluice::sim {

/// Options of a bound on the time of `schedule` on `machine`. It holds for every simulation, from
/// the second iteration on. Less is tried for a large schedule, so that a bound costs a tenth of a
/// second at most.
analysis::TimeBoundOptions TimeBoundOptionsFor(const Machine& machine, const Schedule& schedule);

}  // namespace sluice::sim
