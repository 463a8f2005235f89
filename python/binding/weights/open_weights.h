#pragma once

#include <nanobind/nanobind.h>

namespace sluice::python {

/// Adds open_weights, and what lends tensors outside a lease to PyTorch.
void BindWeights(nanobind::module_& module);

}  // namespace sluice::python
