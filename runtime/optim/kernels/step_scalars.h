#pragma once

#include <cstdint>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// The factor that cuts gradients of norm `norm` to `clip_norm`. It is 1 without a clip_norm (0),
/// and for a norm that is not larger or is a NaN.
double ClipFactor(double clip_norm, double norm);

/// The scalars of update number `step`, counted from 1, of gradients that are to be multiplied by
/// `grad_scale`. A factor that is no normal number of fp32 becomes two that are. One of them is a
/// power of two, which is exact, so that the product is rounded once.
///
/// Adam's corrections are those of the betas that the kernel computes with, rounded to fp32. So the
/// weights of the gradients add up to 1. The difference 1 - beta2 of a rounded 0.999 is off by
/// 5e-5. Without that, the first steps would be off as much.
KernelScalars MakeScalars(const GroupRates& rates, std::int64_t step, double grad_scale);

}  // namespace sluice::optim
