#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "bench/optim/optim_case.h"
#include "bench/store/row.h"

namespace sluice::bench {

struct OptimBenchOptions {
  /// Text that the name of a case must contain; *, ? and [] match. Empty: all cases.
  std::string pattern;
  int rounds = 11;
  /// Parameters of the tensor, a multiple of 4096. Its states should be far larger than the caches.
  std::uint64_t parameters = std::uint64_t{1} << 26;
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> progress;
};

/// Memory of a case and of its ceiling, approximately.
std::uint64_t BytesOf(const OptimCase& which, std::uint64_t parameters);

/// Measures the optimizer kernels alone, each case in rounds of ceiling, kernel, ceiling on the
/// same threads. Errors: InvalidArgument (no case of that name, a size that does not fit),
/// ResourceExhausted (memory), Cancelled.
absl::Status RunOptimBench(const OptimBenchOptions& options, const RowFn& add_row);

}  // namespace sluice::bench
