#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bench/optim/update_data.h"
#include "runtime/optim/kernels/kernel.h"

namespace sluice::bench {

/// Rates of memory and processors without a disk, on all threads and on data far larger than the
/// caches.
class MemoryRates {
 public:
  /// `parameters`: number of a whole step. Create measures a part of them. Errors:
  /// ResourceExhausted, InvalidArgument (no such kernel).
  static absl::StatusOr<std::unique_ptr<MemoryRates>> Create(const optim::KernelSpec& spec,
                                                             std::uint64_t parameters);
  /// Memory of the data.
  static std::uint64_t BytesOf(const optim::KernelSpec& spec, std::uint64_t parameters);

  /// Bytes per second that the triad-like loop moves, over the data of the update.
  double LoopBytesPerSecond() const;
  /// Parameters per second of the kernel alone.
  double KernelParametersPerSecond() const;

 private:
  explicit MemoryRates(const optim::Kernel& kernel) : kernel_(kernel) {}

  const optim::Kernel kernel_;
  std::unique_ptr<UpdateData> data_;
};

}  // namespace sluice::bench
