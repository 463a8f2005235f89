#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/plan/plan.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/machine.h"

namespace sluice::sim {

/// Adds to `input` when the recorded steps, named by the places of their ops, begin and end if none
/// waits for pages.
void AddTimes(const PageLayout& layout,
              const std::vector<core::RecordedStep>& steps,
              core::PlanInput* input);

/// Adds how fast the machine's links are, all paths of each together.
void AddLinks(const Machine& machine, std::uint64_t page_bytes, core::PlanInput* input);

}  // namespace sluice::sim
