#pragma once

#include <span>

#include "absl/status/status.h"
#include "sluice/tensor.h"

namespace sluice::engine {

/// Whether these tensors can be created together. Errors: InvalidArgument that names the tensor.
absl::Status CheckTensorSpecs(std::span<const TensorSpec> specs);

/// Whether each page has whole blocks of the file's checksums. Files without checksums pass.
/// Errors: InvalidArgument that names page_bytes.
absl::Status CheckSumBlocks(const FileHome& home, Bytes page_bytes);

}  // namespace sluice::engine
