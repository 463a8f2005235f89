#pragma once

#include <span>

#include "workloads/gpt/trainer.h"

namespace sluice::tools {

/// What OpenBLAS alone makes of the matrix products of one step, each shape as often as the step
/// has it, in 1e9 floating-point operations per second. Uses the number of threads that OpenBLAS is
/// set to. Blocks for about a second.
double MeasureGemmGflops(std::span<const gpt::GemmShape> shapes);

}  // namespace sluice::tools
