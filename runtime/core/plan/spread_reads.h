#pragma once

#include <optional>

#include "runtime/core/plan/plan.h"

namespace sluice::core {

/// The part of a plan's input that is to leave in every iteration. The input must only read, most
/// pages once, over one link. None: the input is of another kind, or all of it fits.
///
/// Note [Spread reads]
/// Belady's choice keeps whole ops: the pages of some ops stay, all pages of the others come in
/// every iteration. A step then needs frames for all pages of its op. While ops compute whose pages
/// are there, nothing comes, as there is no frame.
///
/// So each op keeps as many pages that as many come for each op as for any other. A step then takes
/// fewer frames, so more pages stay. With equal ops as few pages come as in Belady's optimum over
/// many iterations. Frames are left free for the pages that the link brings while a step computes,
/// and for those that are still under way when the step ends.
///
/// Pages come in the order of their uses, and only when there is room. A page that came earlier
/// would take a frame from one that is used before it. For that one, a page would leave that stays.
std::optional<PlanInput> SpreadReads(const PlanInput& input);

/// Seconds of an iteration that follows the plan, if pages come in the order of their uses, each as
/// soon as a frame is free. For inputs that SpreadReads takes.
double SecondsOfReads(const PlanInput& input, const Plan& plan);

}  // namespace sluice::core
