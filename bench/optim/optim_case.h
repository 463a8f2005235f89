#pragma once

#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::bench {

/// Speed limit that a kernel is compared with.
enum class Ceiling {
  kLoop,       ///< a loop that moves the same bytes
  kFp32Kernel  ///< the kernel of the same optimizer whose parameters and states are fp32
};

struct OptimCase {
  optim::KernelSpec spec;
  optim::SimdTarget target = optim::SimdTarget::kBest;
  bool all_threads = true;

  Ceiling ceiling() const;
  /// The ratio that is asked for.
  double bar() const;
};

/// "adamw/fp32/bf16/best/all". The gradients are fp32 beside fp32 parameters, else bf16.
std::string CaseName(const OptimCase& which);

/// Every optimizer and type by the best instructions on all processors; AdamW also by others, and
/// on one.
std::vector<OptimCase> OptimCases();

}  // namespace sluice::bench
