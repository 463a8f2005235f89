#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "bench/step/step_bench.h"
#include "bench/step/step_case.h"
#include "bench/step/step_model.h"

namespace sluice::bench {

/// Memory of the process beyond budget and gradients, at most.
inline constexpr std::uint64_t kMemoryMore = std::uint64_t{100} << 20;

/// The model of a case of the benchmark.
StepModelOptions ModelOptions(const StepBenchOptions& options, const StepCase& which);

/// Limit of a model's memory: budget, gradients and kMemoryMore.
std::uint64_t MemoryLimit(const StepCase& which, std::uint64_t parameters);

/// Disk and memory of a case while it runs, with the step that it is compared with. The files of
/// fio are not included.
struct StepNeeds {
  std::uint64_t disk_bytes = 0;
  std::uint64_t memory_bytes = 0;
};
StepNeeds NeedsOf(const StepBenchOptions& options, const StepCase& which);

/// Whether the disk and the memory have room for each of the cases. Errors: ResourceExhausted that
/// says what is needed; those of OpenSpillDirectory.
absl::Status CheckNeeds(const StepBenchOptions& options, std::span<const StepCase> cases);

}  // namespace sluice::bench
