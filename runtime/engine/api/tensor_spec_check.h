#pragma once

#include <span>

#include "absl/status/status.h"
#include "sluice/tensor.h"

namespace sluice::engine {

/// Whether these tensors can be created together. Errors: InvalidArgument that names the tensor.
absl::Status CheckTensorSpecs(std::span<const TensorSpec> specs);

}  // namespace sluice::engine
