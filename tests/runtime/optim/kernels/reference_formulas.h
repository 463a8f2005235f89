#pragma once

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// One element of a tensor and its states, as fp32.
struct ReferenceElement {
  float p = 0;
  float states[2] = {};
};

/// The formulas of docs/optimizer-kernels.md, one element at a time. `gradient`: scaled already.
void ApplyReference(OptimizerKind kind,
                    const KernelScalars& scalars,
                    float gradient,
                    ReferenceElement* element);

}  // namespace sluice::optim
