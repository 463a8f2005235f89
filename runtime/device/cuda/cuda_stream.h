#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_worker.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// A stream of the GPU's own. `worker` and `share` outlive it. Errors: those of CudaHealth::Check.
absl::StatusOr<std::unique_ptr<Stream>> MakeCudaStream(const CudaContextShare& share,
                                                       CudaWorker& worker);

}  // namespace sluice::device
