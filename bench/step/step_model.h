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
#include "bench/store/system/child_output.h"
#include "bench/store/system/page_buffers.h"
#include "sluice/optimizer.h"
#include "sluice/runtime.h"

namespace sluice::bench {

struct StepModelOptions {
  StepCase which;
  std::uint64_t parameters = 0;
  /// Parameters of each tensor but the last, which has the rest.
  std::uint64_t tensor_parameters = std::uint64_t{1} << 24;
  std::string directory;
  std::uint64_t page_bytes = std::uint64_t{2} << 20;
  std::string policy = "planned";
  int threads = 1;
  InterruptedFn interrupted;
  /// Function that is told of each fallback and its reason, once.
  std::function<void(std::string_view line)> warn;
};

/// Figures of one step: the mean of a sweep in each direction.
struct StepSample {
  double seconds = 0;
  double wait_seconds = 0;        ///< time of the optimizer's thread without pages
  double wait_read_seconds = 0;   ///< part of the wait for reads
  double wait_write_seconds = 0;  ///< part of the wait for frames, until other pages are written
  double compute_seconds = 0;     ///< time of updates
  double read_bytes = 0;
  double written_bytes = 0;
  /// Time with at least one page on its way in (read) or out (write).
  double read_busy_seconds = 0;
  double write_busy_seconds = 0;
};

/// Parameters in pages on nvme, and the optimizer that updates them. Their gradients are in memory
/// of the model's own. The model uses the public API alone. Threads: externally synchronised.
class StepModel {
 public:
  /// Bytes of the spill files, at most.
  static std::uint64_t DiskBytesOf(const StepModelOptions& options);
  /// Bytes of the gradients.
  static std::uint64_t GradientBytesOf(const StepCase& which, std::uint64_t parameters);

  /// Writes the parameters. Errors: those of Runtime::Create and CreateTensors, ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<StepModel>> Create(const StepModelOptions& options);

  /// Runs two iterations of the runtime, each with a step in one direction and one in the other.
  /// The second one counts. So the disk works ahead and behind as in endless steps, though others
  /// use it before and after. Errors: those of a step, Cancelled.
  absl::StatusOr<StepSample> Measure();

  /// Updates samples of every tensor as often by the kernel in plain memory. Returns the first
  /// difference; empty: none. Errors: of reading pages.
  absl::StatusOr<std::string> Difference();

  /// Gradients of all tensors, one behind the other.
  std::span<std::byte> gradients() const { return gradients_->memory(); }
  /// Whether dram and the gradients lie on huge pages.
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
  std::unique_ptr<OffloadedOptimizer> optimizer_;  ///< member that goes before the runtime
  GroupId group_;
};

}  // namespace sluice::bench
