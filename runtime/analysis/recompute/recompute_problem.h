#pragma once

#include <span>

#include "runtime/analysis/bounds/bound.h"
#include "runtime/analysis/bounds/time_bound.h"
#include "runtime/analysis/recompute/recomputable.h"
#include "runtime/analysis/recompute/recompute.h"
#include "sluice/schedule.h"

namespace sluice::analysis {

/// Problem of a schedule for PlanRecompute: a candidate for each of `tensors`, in their order, and
/// the least bytes that cross each link, with them and without. `machine`: tiers, their bytes,
/// links and iterations_max count.
RecomputeProblem MakeRecomputeProblem(const Schedule& schedule,
                                      std::span<const Recomputable> tensors,
                                      const TimeBoundOptions& machine);

/// Makes a link from the least bytes that cross it if all candidates are there all the time, and if
/// they never are while idle. Bytes for the candidates' excess cross it both ways, so the link
/// takes the mean.
RecomputeLink MakeRecomputeLink(const BoundLink& rates,
                                const BoundBytes& with,
                                const BoundBytes& without);

}  // namespace sluice::analysis
