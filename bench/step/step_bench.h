#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "bench/store/machine/child_output.h"
#include "bench/store/row.h"

namespace sluice::bench {

struct StepBenchOptions {
  /// On the disk to measure; as of io::PageStoreOptions, but never empty.
  std::string directory;
  /// A multiple of 4096.
  std::uint64_t parameters = std::uint64_t{1} << 28;
  std::uint64_t tensor_parameters = std::uint64_t{1} << 24;  ///< parameters of each tensor
  std::string pattern;      ///< pattern of the cases (MatchesPattern); empty: all
  int rounds = 11;          ///< rounds of each case
  double minutes_max = 30;  ///< a round is left out, but never the third, when it would end later
  std::uint32_t milliseconds = 1000;                  ///< length of each run of fio
  std::uint64_t fio_bytes = std::uint64_t{2} << 30;   ///< its files; a multiple of 8 MiB
  std::uint64_t page_bytes = std::uint64_t{2} << 20;  ///< at most 2 MiB
  std::string policy = "planned";                     ///< policy of the runtime
  std::string fio = "fio";
  std::string huge_pages_path = "/proc/sys/vm/nr_hugepages";

  InterruptedFn interrupted;
  std::function<void(const std::string&)> progress;
  /// What is less than it could be, and why: once each.
  std::function<void(const std::string&)> warn;
};

/// Measures whole steps of optimizers whose parameters and states are on nvme against the time that
/// the bytes take which must move (step_case.h, Note [Floor of a step]). Calls `add_row` as rows
/// come; nothing is left behind. Threads: the calling one calls back.
/// Returns what differs from the kernel in plain memory: then it ends there; empty: nothing did.
/// Errors: InvalidArgument, NotFound, PermissionDenied, ResourceExhausted (space, memory), and
/// FailedPrecondition (no fio) before anything is measured; Cancelled; those of the runtime and of
/// fio.
absl::StatusOr<std::string> RunStepBench(const StepBenchOptions& options, const RowFn& add_row);

}  // namespace sluice::bench
