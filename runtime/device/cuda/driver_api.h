#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_api.h"

namespace sluice::device {

/// The NVIDIA driver of this machine, found at run time. Errors: FailedPrecondition (no driver, a
/// driver too old for a call, a build without CUDA).
absl::StatusOr<std::unique_ptr<CudaApi>> LoadCudaApi();

}  // namespace sluice::device
