#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/device.h"

namespace sluice::device {

struct CudaDeviceOptions {
  int ordinal = 0;  ///< see ChooseGpu
  std::uint64_t page_bytes = 0;
  std::uint32_t frames = 0;
  std::vector<int> cpus;  ///< processors of the GPU's thread; empty: any
};

/// Finds the GPU that `name` names, by its ordinal among those visible, or by its UUID, "GPU-..."
/// or "MIG-...". The beginning of a UUID is enough. Errors: FailedPrecondition (no driver, no GPU,
/// none that can be used, with the reason), NotFound (no such GPU, with those that there are).
absl::StatusOr<int> ChooseGpu(CudaApi& api, const std::string& name);

/// Reason for which the GPU cannot hold a tier of such pages; empty if it can.
std::string WhyNotUsable(const CudaDeviceFacts& facts, std::uint64_t page_bytes);

/// The hbm of an NVIDIA GPU. Frames are physical memory of one page each, taken once; a range is
/// one reservation of addresses under which frames are mapped. Copies run on two streams of the
/// device's own. `api` outlives the device.
/// Errors: InvalidArgument (page_bytes), FailedPrecondition (the GPU lacks a needed feature),
/// ResourceExhausted (memory, threads), Unavailable (a dead GPU).
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(CudaApi& api,
                                                       const CudaDeviceOptions& options);

}  // namespace sluice::device
