#pragma once

#include "runtime/core/time_bound.h"
#include "runtime/sim/machine.h"
#include "sluice/schedule.h"

namespace sluice::sim {

/// What bounds the time of `schedule` on `machine`: a bound for every simulation of it, from the
/// second iteration on. Of a large schedule less is tried, so that a bound costs a tenth of a
/// second at most.
core::TimeBoundOptions TimeBoundOptionsFor(const Machine& machine, const Schedule& schedule);

}  // namespace sluice::sim
