#pragma once

#include <span>

#include "workloads/gpt/compute_threads.h"
#include "workloads/gpt/trainer.h"

namespace sluice::tools {

/// Rate of the matrix products of one step, with nothing between them: each shape as often as the
/// step has it, in 1e9 floating-point operations per second. Blocks for about a second.
double MeasureGemmGflops(gpt::ComputeThreads& threads, std::span<const gpt::GemmShape> shapes);

}  // namespace sluice::tools
