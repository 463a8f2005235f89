#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/support/cuda/cuda_lab.h"

namespace sluice::testing {

/// The driver of this machine and its first GPU, as the tests see the fake one. Errors: those of
/// device::LoadCudaApi, FailedPrecondition (no GPU).
absl::StatusOr<std::unique_ptr<CudaLab>> MakeGpuLab();

}  // namespace sluice::testing
