#pragma once

#include "workloads/gpt/compute/gemm.h"

namespace sluice::gpt {

/// Multiplies and adds in registers, as the best vector instructions of this processor can, and
/// returns how many floating-point operations that were. Takes about a millisecond. Threads: any.
double RunPeakLoop();

/// The instructions that RunPeakLoop uses.
VectorSet PeakVectorSet();

}  // namespace sluice::gpt
