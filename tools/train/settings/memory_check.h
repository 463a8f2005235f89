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

/// The default of every option, page_bytes included.
RuntimeOptions OptionsOfNoJob();

/// What decides how much memory a run takes. The defaults are those of a job of which nothing is
/// known: the shipped configurations need less.
struct RunNeeds {
  RuntimeOptions runtime = OptionsOfNoJob();
  std::uint64_t text_bytes = std::uint64_t{8} << 20;  ///< size of the project's own text
  std::uint64_t tensor_bytes = 0;                     ///< matters for a run in RAM only
  engine::JobSize job = {.tensor_pages = 4096, .ops = 512, .page_accesses = 1 << 14};
  int compute_threads = 1;
  int runs_in_ram = 0;  ///< with --verify one
};

/// Adds what matrix products on so many threads take of data and addresses.
void AddProducts(int threads, numa::MemorySum* sum);

/// Errors: InvalidArgument (the model).
absl::StatusOr<RunNeeds> FindNeeds(const TrainFlags& flags);

/// All that the run takes, its child processes included: one cgroup holds them all. Errors:
/// InvalidArgument (budgets too large to count, or too small).
absl::StatusOr<numa::MemorySum> MemoryOf(const RunNeeds& needs);

/// So that a run that cannot fit is found before its work. Errors: ResourceExhausted as
/// numa::CheckFits; as FindNeeds, MemoryOf and numa::ReadMemoryLimits.
absl::Status CheckMemory(const TrainFlags& flags);

/// The largest tiers.dram.bytes and tiers.hbm.bytes together with which CheckMemory lets the run
/// begin, whole MiB, and a little less: what else is in the cgroup changes. 0: none fits. The
/// budgets in `needs` do not matter.
Bytes LargestBudgets(const RunNeeds& needs, const numa::MemoryLimits& limits);

}  // namespace sluice::tools
