#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_frames.h"
#include "runtime/device/cuda/cuda_worker.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// Makes a stream of the device's own. The arguments outlive it. Errors: those of
/// CudaHealth::Check.
absl::StatusOr<std::unique_ptr<Stream>> MakeCudaStream(const CudaContextShare& share,
                                                       const CudaFrames& frames,
                                                       CudaWorker& worker);
/// Adopts a stream of the user's: one that the user made, the legacy default stream (null), or the
/// calling thread's own. The arguments outlive the result.
std::unique_ptr<Stream> AdoptCudaStream(const CudaContextShare& share,
                                        const CudaFrames& frames,
                                        CudaWorker& worker,
                                        CudaStream stream);

}  // namespace sluice::device
