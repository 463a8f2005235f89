#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/runtime.h"

namespace sluice::bench {

/// One lease of a tensor.
struct LeaseTime {
  double seconds = 0;
  /// The pages came, and were mapped where they came to before.
  bool in_place = false;
};

/// Bytes of one direction over the link to the lowest tier, and the time of the pass that moved
/// them.
struct Moved {
  std::uint64_t bytes = 0;
  double seconds = 0;

  double rate() const { return static_cast<double>(bytes) / seconds; }
};

/// A runtime whose tensors fit into dram, or into nvme, but not into hbm: leases in hbm move pages.
/// Threads: one.
class LeasedRun {
 public:
  /// Makes tensors of `layer_bytes` each that hold `bytes` in all, and writes them once. Errors:
  /// those of Runtime::Create and of the writes.
  static absl::StatusOr<std::unique_ptr<LeasedRun>> Create(const RuntimeOptions& options,
                                                           std::uint64_t bytes,
                                                           std::uint64_t layer_bytes);

  /// Leases each tensor in hbm once, in order or by a seed, some tickets ahead. `mode` decides the
  /// direction: kRead in, kOverwrite out, kReadWrite both. Errors: those of tickets.
  absl::StatusOr<Moved> Pass(AccessMode mode, bool in_order);
  /// One pass of an iteration that the runtime plans from the second call on, with reads.
  absl::StatusOr<Moved> PlannedPass();
  /// Leases a tensor in hbm.
  absl::StatusOr<LeaseTime> TimeLease(std::size_t tensor);

 private:
  LeasedRun() = default;
  std::vector<std::size_t> Order(bool in_order);
  absl::Status LeaseAll(AccessMode mode, const std::vector<std::size_t>& order);
  std::uint64_t MovedBytes(AccessMode mode) const;
  std::uint64_t InPlace() const;

  std::unique_ptr<Runtime> runtime_;
  std::vector<TensorId> tensors_;
  std::string link_;  ///< name of the link to the lowest tier
  std::uint64_t layer_bytes_ = 0;
  std::uint64_t seed_ = 1;
};

}  // namespace sluice::bench
