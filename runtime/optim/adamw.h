#pragma once

#include <cstdint>
#include <span>

#include "runtime/optim/gradient_scan.h"
#include "runtime/optim/kernel.h"

namespace sluice::optim {

using AdamWParams = KernelScalars;

/// What stays the same over a run.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
};

/// MakeScalars (step_scalars.h) of update number `update`, counted from 1.
AdamWParams MakeAdamWParams(const AdamWOptions& options,
                            std::int64_t update,
                            double learning_rate,
                            double weight_decay,
                            double grad_scale);

/// The kernel for fp32 parameters and gradients; every processor has it.
Kernel AdamWKernel(StateType states);

/// That kernel with fp32 states, for parameters `p`, gradients `g` and moments `m`, `v`. REQUIRES:
/// equal sizes. Align: 4 bytes.
void AdamWStep(const AdamWParams& params,
               std::span<float> p,
               std::span<const float> g,
               std::span<float> m,
               std::span<float> v);

}  // namespace sluice::optim
