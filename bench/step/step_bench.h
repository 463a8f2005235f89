#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "bench/store/row.h"
#include "bench/store/system/child_output.h"

namespace sluice::bench {

struct StepBenchOptions {
  /// Directory on the disk to measure, as in io::PageStoreOptions, but never empty.
  std::string directory;
  /// Parameters of all tensors, a multiple of 4096.
  std::uint64_t parameters = std::uint64_t{1} << 28;
  std::uint64_t tensor_parameters = std::uint64_t{1} << 24;  ///< parameters of each tensor
  std::string pattern;  ///< pattern of the cases (MatchesPattern); empty: all
  int rounds = 11;      ///< rounds of each case
  /// Minutes of all cases together; no round but a case's first three begins later.
  double minutes_max = 30;
  std::uint32_t milliseconds = 1000;                  ///< length of each run of fio
  std::uint64_t fio_bytes = std::uint64_t{2} << 30;   ///< size of fio's files, a multiple of 8 MiB
  std::uint64_t page_bytes = std::uint64_t{2} << 20;  ///< bytes of a page, at most 2 MiB
  std::string policy = "planned";                     ///< policy of the runtime
  std::string fio = "fio";
  std::string huge_pages_path = "/proc/sys/vm/nr_hugepages";

  InterruptedFn interrupted;
  std::function<void(const std::string&)> progress;
  /// Function that is told of each fallback and its reason, once.
  std::function<void(const std::string&)> warn;
};

/// Measures whole steps of optimizers, with parameters and states on nvme. The floor of a step is
/// the time of the bytes that must move (step_case.h, Note [Floor of a step]). Calls `add_row` for
/// each row as it comes, and leaves nothing behind. Threads: the calling one calls back.
///
/// Returns the first difference from the kernel in plain memory, which ends the run; empty: no
/// difference.
///
/// Errors: InvalidArgument, NotFound, PermissionDenied, ResourceExhausted (space, memory), and
/// FailedPrecondition (no fio) before anything is measured; Cancelled; those of the runtime and of
/// fio.
absl::StatusOr<std::string> RunStepBench(const StepBenchOptions& options, const RowFn& add_row);

}  // namespace sluice::bench
