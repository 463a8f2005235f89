#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "numa/arena.h"
#include "runtime/device/copy_rates.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/device.h"
#include "sluice/options.h"

namespace sluice::bench {

/// A device without a runtime, with some pages on each side. It measures the link with plain
/// copies. Threads: one.
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

  std::shared_ptr<device::CudaApi> cuda_;
  std::unique_ptr<numa::Arena> host_;
  std::unique_ptr<device::Device> device_;  ///< device that copies from `host_` until it goes
};

}  // namespace sluice::bench
