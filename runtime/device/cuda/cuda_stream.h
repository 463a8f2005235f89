#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_worker.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// A stream of the device's own. `worker` and `share` outlive it. Errors: those of
/// CudaHealth::Check.
absl::StatusOr<std::unique_ptr<Stream>> MakeCudaStream(const CudaContextShare& share,
                                                       CudaWorker& worker);
/// A stream of the user's: one that the user made, the legacy default stream (null), or the calling
/// thread's own. Likewise.
std::unique_ptr<Stream> AdoptCudaStream(const CudaContextShare& share,
                                        CudaWorker& worker,
                                        CudaStream stream);

}  // namespace sluice::device
