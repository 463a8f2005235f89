#pragma once

#include <cstdint>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// The factor that cuts gradients of norm `norm` to `clip_norm`; 1 where nothing is cut: no
/// clip_norm (0), or a norm that is not larger, or is a NaN.
double ClipFactor(double clip_norm, double norm);

/// The scalars of update number `step`, counted from 1, of gradients that are to be multiplied by
/// `grad_scale`. A factor that is none of fp32's normal numbers becomes two that are: the power of
/// two is exact, so that the product is rounded once.
///
/// Adam's corrections are those of the betas that the kernel computes with, rounded to fp32, so
/// that the weights of the gradients add up to 1: 1 - beta2 of a rounded 0.999 is off by 5e-5, and
/// so would the first steps be.
KernelScalars MakeScalars(const GroupRates& rates, std::int64_t step, double grad_scale);

}  // namespace sluice::optim
