#include "runtime/device/cuda/driver_api.h"

namespace sluice::device {

absl::StatusOr<std::unique_ptr<CudaApi>> LoadCudaApi() {
  return absl::FailedPreconditionError(
      "this build has no CUDA: build it with CUDA 13 or newer and SLUICE_WITH_CUDA=ON");
}

}  // namespace sluice::device
