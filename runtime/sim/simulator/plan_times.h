#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/plan/plan.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/machine.h"

namespace sluice::sim {

/// Adds to `input` the times at which the recorded steps begin and end if none waits for pages.
/// Steps are named by the places of their ops.
void AddTimes(const PageLayout& layout,
              const std::vector<core::RecordedStep>& steps,
              core::PlanInput* input);

/// Adds the rates of the machine's links, all paths of each together.
void AddLinks(const Machine& machine, std::uint64_t page_bytes, core::PlanInput* input);

}  // namespace sluice::sim
