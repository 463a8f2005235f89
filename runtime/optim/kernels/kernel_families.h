#pragma once

#include <cstdint>

#include "runtime/optim/kernels/kernel.h"

/// Families of optimizers. Each is compiled on its own, for every target. `target`: one of
/// Highway's HWY_TARGET values. Returns null for a target that is not compiled.
/// REQUIRES: the spec is valid and its optimizer belongs to the family.

namespace sluice::optim {

UpdateFn FindAdam(const KernelSpec& spec, std::int64_t target);      ///< Adam, AdamW
UpdateFn FindMomentum(const KernelSpec& spec, std::int64_t target);  ///< SGD, Nesterov
UpdateFn FindSimple(const KernelSpec& spec, std::int64_t target);    ///< Lion, Adagrad

}  // namespace sluice::optim
