#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/optim/kernels/gradient_scan.h"
#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/step/fork_join.h"
#include "runtime/optim/step/pieces.h"
#include "sluice/runtime.h"

namespace sluice::optim {

/// Place of a gradient: a tensor, or else the caller's memory.
struct GradientSource {
  GradientType type = GradientType::kFp32;
  TensorId tensor;
  std::span<const std::byte> bytes;
};

/// Memory of one range: the gradient, and the sum where there is one.
struct RangeMemory {
  Pieces gradient;
  Pieces sum;
};

/// Passes over whole gradients, range by range: the sum of their squares, and their accumulation.
/// Threads: externally synchronised.
class GradientPasses {
 public:
  struct Options {
    std::string lane;
    std::uint64_t range_elements = 0;  ///< elements of one op; a multiple of kSumOfSquaresBlock
    std::size_t depth = 4;             ///< ops asked for ahead
  };
  GradientPasses(Runtime& runtime, ForkJoin& join, const Options& options)
      : runtime_(runtime), join_(join), options_(options) {}

  /// Sum of squares of the whole gradient, as SumOfSquares gives it. Errors: those of Ticket::Take.
  absl::StatusOr<double> Scan(const ParameterEntry& entry, const GradientSource& gradient);
  /// Adds the gradient to the entry's accumulator. The first gradient overwrites the accumulator.
  /// Errors: those of Ticket::Take.
  absl::Status Accumulate(const ParameterEntry& entry,
                          const GradientSource& gradient,
                          GradientType sum_type,
                          bool first);

 private:
  struct Pass;
  absl::Status Run(const Pass& pass);
  static std::vector<Access> AccessesOf(const Pass& pass, ElementRange range);
  void Work(const Pass& pass, ElementRange range, const std::vector<Lease>& leases);

  Runtime& runtime_;
  ForkJoin& join_;
  const Options options_;
};

}  // namespace sluice::optim
