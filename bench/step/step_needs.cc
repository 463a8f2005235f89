#include "bench/step/step_needs.h"

#include <algorithm>

#include "base/status.h"
#include "bench/optim/parts.h"
#include "bench/step/memory_rates.h"
#include "bench/store/system/free_space.h"
#include "fmt/format.h"
#include "io/file/spill_directory.h"

namespace sluice::bench {
namespace {

absl::Status CheckMemory(const StepBenchOptions& options, std::uint64_t wanted) {
  return CheckFreeMemory(
      wanted,
      fmt::format("the budgets and gradients of {} parameters", options.parameters),
      "take fewer with --mebiparameters, or fewer cases with --case");
}

}  // namespace

StepModelOptions ModelOptions(const StepBenchOptions& options, const StepCase& which) {
  return {.which = which,
          .parameters = options.parameters,
          .tensor_parameters = options.tensor_parameters,
          .directory = options.directory,
          .page_bytes = options.page_bytes,
          .policy = options.policy,
          .threads = static_cast<int>(std::min<std::size_t>(AllowedProcessors(), 256)),
          .interrupted = options.interrupted,
          .warn = [warn = options.warn](std::string_view line) {
            if (warn) warn(std::string(line));
          }};
}

std::uint64_t MemoryLimit(const StepCase& which, std::uint64_t parameters) {
  return BudgetBytes(which, parameters) + StepModel::GradientBytesOf(which, parameters) +
         kMemoryMore;
}

StepNeeds NeedsOf(const StepBenchOptions& options, const StepCase& which) {
  StepNeeds needs{.disk_bytes = StepModel::DiskBytesOf(ModelOptions(options, which)),
                  .memory_bytes = MemoryLimit(which, options.parameters) +
                                  MemoryRates::BytesOf(which.spec, options.parameters)};
  if (which.floor != StepFloor::kOwnFp32) return needs;
  const StepCase own = OwnFp32(which);
  needs.disk_bytes += StepModel::DiskBytesOf(ModelOptions(options, own));
  needs.memory_bytes += MemoryLimit(own, options.parameters);
  return needs;
}

absl::Status CheckNeeds(const StepBenchOptions& options, std::span<const StepCase> cases) {
  StepNeeds most;
  for (const StepCase& which : cases) {
    const StepNeeds needs = NeedsOf(options, which);
    most.disk_bytes = std::max(most.disk_bytes, needs.disk_bytes);
    most.memory_bytes = std::max(most.memory_bytes, needs.memory_bytes);
  }
  SLUICE_ASSIGN_OR_RETURN(const io::SpillDirectory directory,
                          io::OpenSpillDirectory(options.directory));
  SLUICE_RETURN_IF_ERROR(
      CheckFreeSpace(directory,
                     most.disk_bytes + options.fio_bytes,
                     fmt::format("states of {} parameters (--mebiparameters) and files of fio",
                                 options.parameters)));
  return CheckMemory(options, most.memory_bytes);
}

}  // namespace sluice::bench
