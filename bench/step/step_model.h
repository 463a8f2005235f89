#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/step/step_case.h"
#include "bench/store/machine/child_output.h"
#include "bench/store/machine/page_buffers.h"
#include "sluice/optimizer.h"
#include "sluice/runtime.h"

namespace sluice::bench {

struct StepModelOptions {
  StepCase which;
  std::uint64_t parameters = 0;
  /// Of each tensor but the last, which has what is left.
  std::uint64_t tensor_parameters = std::uint64_t{1} << 24;
  std::string directory;
  std::uint64_t page_bytes = std::uint64_t{2} << 20;
  std::string policy = "planned";
  int threads = 1;
  InterruptedFn interrupted;
  /// What is less than it could be, and why: once each.
  std::function<void(std::string_view line)> warn;
};

/// What one step took: the mean of a sweep each way.
struct StepSample {
  double seconds = 0;
  double wait_seconds = 0;        ///< the optimizer's thread had no pages,
  double wait_read_seconds = 0;   ///< part of the wait for reads
  double wait_write_seconds = 0;  ///< until others were written
  double compute_seconds = 0;     ///< it updated
  double read_bytes = 0;
  double written_bytes = 0;
  /// At least one page was on its way in, out.
  double read_busy_seconds = 0;
  double write_busy_seconds = 0;
};

/// Parameters in pages on nvme, the optimizer that updates them, and their gradients in memory of
/// its own, all of it on the public API. Threads: externally synchronised.
class StepModel {
 public:
  /// What its spill files take at most.
  static std::uint64_t DiskBytesOf(const StepModelOptions& options);
  /// Its gradients.
  static std::uint64_t GradientBytesOf(const StepCase& which, std::uint64_t parameters);

  /// Writes the parameters. Errors: those of Runtime::Create and CreateTensors, ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<StepModel>> Create(const StepModelOptions& options);

  /// Two iterations of the runtime, each a step in one direction and one in the other; the second
  /// counts. So what the disk does ahead of need and behind it is that of steps without end, though
  /// others have the disk before and after. Errors: those of a step, Cancelled.
  absl::StatusOr<StepSample> Measure();

  /// Updates samples of every tensor as often by the kernel in plain memory; what differs, empty
  /// when nothing does. Errors: of reading pages.
  absl::StatusOr<std::string> Difference();

  /// The gradients, one tensor's after the other's.
  std::span<std::byte> gradients() const { return gradients_->memory(); }
  /// Whether dram and the gradients lie on huge pages; of dram, the bytes that the ring knows.
  bool huge() const;

 private:
  explicit StepModel(const StepModelOptions& options);
  absl::Status MakeRuntime();
  absl::Status MakeParameters();
  absl::Status WriteParameter(std::size_t index);
  absl::Status MakeOptimizer();
  absl::StatusOr<StepSample> RunBothWays();
  absl::Status RunStep(StepSample* sample);
  std::uint64_t CountOf(std::size_t tensor) const;
  /// Elements of one tensor, as they are now.
  absl::StatusOr<std::vector<std::byte>> ReadElements(std::size_t tensor, ElementRange elements);
  std::span<const std::byte> GradientsOf(std::size_t tensor, ElementRange elements) const;
  absl::StatusOr<std::string> DifferenceIn(std::size_t tensor, ElementRange elements);

  const StepModelOptions options_;
  std::unique_ptr<PageBuffers> gradients_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<TensorId> tensors_;
  std::unique_ptr<OffloadedOptimizer> optimizer_;  ///< goes before the runtime
  GroupId group_;
};

}  // namespace sluice::bench
