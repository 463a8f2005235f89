#pragma once

#include <span>

#include "runtime/analysis/bounds/bound.h"
#include "runtime/analysis/bounds/time_bound.h"
#include "runtime/analysis/recompute/recomputable.h"
#include "runtime/analysis/recompute/recompute.h"
#include "sluice/schedule.h"

namespace sluice::analysis {

/// What PlanRecompute is asked of a schedule: a candidate for each of `tensors`, in their order,
/// and what crosses each link at least, with them and without. `machine`: tiers, their bytes, links
/// and iterations_max count.
RecomputeProblem MakeRecomputeProblem(const Schedule& schedule,
                                      std::span<const Recomputable> tensors,
                                      const TimeBoundOptions& machine);

/// From what crosses the link at least if all candidates are there all the time, and if they never
/// are while idle. What the candidates' excess takes crosses it both ways, so it is the mean.
RecomputeLink MakeRecomputeLink(const BoundLink& rates,
                                const BoundBytes& with,
                                const BoundBytes& without);

}  // namespace sluice::analysis
