#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/copy_rates.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_health.h"

namespace sluice::bench {

/// Copies between host memory and a GPU by the driver's own calls, without the CUDA device. Each
/// direction has a stream, with three batches of pages enqueued at a time. Threads: one.
class PlainCuda {
 public:
  struct Options {
    int ordinal = 0;
    std::uint64_t page_bytes = 0;  ///< a multiple of the granularity of the GPU's memory
    /// Pages that copies may overwrite, two or more. They are registered while the object lives.
    std::span<std::byte> host;
  };

  /// Takes as much of the GPU's memory as `host` has. `api` outlives the object. Errors: those of
  /// the driver.
  static absl::StatusOr<std::unique_ptr<PlainCuda>> Create(device::CudaApi& api,
                                                           const Options& options);
  ~PlainCuda();
  PlainCuda(const PlainCuda&) = delete;
  PlainCuda& operator=(const PlainCuda&) = delete;

  /// Bytes per second of each direction alone, and of both at once, measured for `milliseconds`
  /// each. Errors: those of the driver.
  absl::StatusOr<device::CopyRates> Rates(std::uint32_t milliseconds);
  /// Seconds from the call of one copy in to its end. Errors: those of the driver.
  absl::StatusOr<double> SecondsOfOneCopyIn();

 private:
  class Flow;
  /// Memory of the GPU that copies of one direction use: two streams share none.
  struct Half {
    device::CudaMemory memory = 0;
    bool mapped = false;
  };

  PlainCuda(device::CudaApi& api, const Options& options);
  absl::Status Prepare();
  absl::Status MakeHalf(Half& half);
  std::uint64_t half_bytes() const {
    return options_.host.size() / options_.page_bytes / 2 * options_.page_bytes;
  }
  std::byte* AddressOf(const Half& half) const {
    return address_ + (&half == &halves_[0] ? 0 : half_bytes());
  }
  absl::StatusOr<double> Run(std::span<Flow* const> flows, std::uint32_t milliseconds);

  device::CudaApi& api_;
  device::CudaHealth health_;
  const Options options_;
  std::unique_ptr<device::CudaContextShare> share_;
  bool registered_ = false;
  std::byte* address_ = nullptr;
  std::array<Half, 2> halves_;  ///< memory of copies in, then of copies out
  std::unique_ptr<Flow> in_;
  std::unique_ptr<Flow> out_;
};

}  // namespace sluice::bench
