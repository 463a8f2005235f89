#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bench/device/plain_cuda.h"
#include "numa/arena.h"
#include "runtime/device/copy_rates.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/device.h"
#include "sluice/options.h"

namespace sluice::bench {

/// Plain copies between some pages on each side of a device, without a runtime: the driver's calls
/// on a GPU, the device's own copies where it is emulated. Threads: one.
class PlainDevice {
 public:
  /// `options`: kind of the device, GPU and page_bytes. Errors: those of the device and of
  /// numa::Arena::Create.
  static absl::StatusOr<std::unique_ptr<PlainDevice>> Create(const RuntimeOptions& options);
  /// Bytes per second of copies in a row. Errors: those of device::MeasureCopyRates.
  absl::StatusOr<device::CopyRates> Rates(std::uint32_t milliseconds);
  /// Seconds from the begin of a copy to the report of its end. Errors: that of the copy.
  absl::StatusOr<double> SecondsOfOneCopyIn();

 private:
  PlainDevice() = default;
  absl::Status PrepareCuda(const RuntimeOptions& options);
  absl::Status PrepareEmulated(const RuntimeOptions& options);

  std::unique_ptr<numa::Arena> host_;
  // One of the two copies from `host_` until it goes.
  std::unique_ptr<device::CudaApi> driver_;
  std::unique_ptr<PlainCuda> cuda_;
  std::unique_ptr<device::Device> emulated_;
};

}  // namespace sluice::bench
