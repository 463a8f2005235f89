#pragma once

#include "workloads/gpt/compute/gemm.h"

namespace sluice::gpt {

/// Multiplies and adds in registers, with the best vector instructions of this processor. Returns
/// the number of floating-point operations. Takes about a millisecond. Threads: any.
double RunPeakLoop();

/// The instructions that RunPeakLoop uses.
VectorSet PeakVectorSet();

}  // namespace sluice::gpt
