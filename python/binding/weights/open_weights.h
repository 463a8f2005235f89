#pragma once

#include <nanobind/nanobind.h>

namespace sluice::python {

/// Adds open_weights, and the functions that lend tensors outside a lease to PyTorch.
void BindWeights(nanobind::module_& module);

}  // namespace sluice::python
