#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "numa/memory_limits.h"
#include "numa/memory_sum.h"
#include "runtime/engine/setup/memory_needs.h"
#include "sluice/options.h"
#include "sluice/units.h"
#include "tools/train/settings/train_flags.h"

namespace sluice::tools {

/// Options with every default, page_bytes included.
RuntimeOptions OptionsOfNoJob();

/// Facts that decide the memory of a run. The defaults are those of an unknown job: the shipped
/// configurations need less.
struct RunNeeds {
  RuntimeOptions runtime = OptionsOfNoJob();
  std::uint64_t text_bytes = std::uint64_t{8} << 20;  ///< size of the project's own text
  /// Bytes of tensors; they matter for a run in RAM only.
  std::uint64_t tensor_bytes = 0;
  engine::JobSize job = {.tensor_pages = 4096, .ops = 512, .page_accesses = 1 << 14};
  int compute_threads = 1;
  int runs_in_ram = 0;  ///< number of runs in RAM; one with --verify
};

/// Adds the data and addresses that matrix products on so many threads take.
void AddProducts(int threads, numa::MemorySum* sum);

/// Finds the needs of a run. Errors: InvalidArgument (the model).
absl::StatusOr<RunNeeds> FindNeeds(const TrainFlags& flags);

/// All memory of the run, with its child processes: one cgroup holds them all. Errors:
/// InvalidArgument (budgets too large to count, or too small).
absl::StatusOr<numa::MemorySum> MemoryOf(const RunNeeds& needs);

/// Whether the run fits, so that one that cannot is found before its work. Errors:
/// ResourceExhausted of numa::CheckFits; those of FindNeeds, MemoryOf and engine::CheckMachine.
absl::Status CheckMemory(const TrainFlags& flags);

/// The largest sum of tiers.dram.bytes and tiers.hbm.bytes with which CheckMemory lets the run
/// begin, in whole MiB, and a little less: the rest of the cgroup changes. 0: none fits. The
/// budgets in `needs` do not matter.
Bytes LargestBudgets(const RunNeeds& needs, const numa::MemoryLimits& limits);

}  // namespace sluice::tools
