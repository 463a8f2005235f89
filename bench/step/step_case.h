#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::bench {

/// Floor that the time of a step is compared with.
enum class StepFloor : std::uint8_t {
  kDisk,          ///< the disk's time for the bytes that must move
  kDiskOrMemory,  ///< the disk's time, or memory's for the bytes of update and disk
  kOwnFp32        ///< our own step with fp32 parameters and states, under the same budget
};

struct StepCase {
  optim::KernelSpec spec;
  /// Budget of dram in percent of the parameters and states. 0: budget_bytes_per_parameter is the
  /// budget.
  int percent = 0;
  double budget_bytes_per_parameter = 2;
  StepFloor floor = StepFloor::kDisk;
  /// Time of a step that is asked for, as a multiple of the floor; 0: the case is only reported.
  double limit = 0;
};

/// Bytes of parameters and states, by BytesPerElement.
double KeptBytes(const StepCase& which, std::uint64_t parameters);
std::uint64_t BudgetBytes(const StepCase& which, std::uint64_t parameters);
/// "adamw/fp32/fp32/512MiB", "adamw/fp32/fp32/25%". The gradients are fp32 beside fp32 parameters,
/// else bf16.
std::string CaseName(const StepCase& which, std::uint64_t parameters);

/// The cases:
/// - AdamW in fp32 with a sixth, a twelfth and half of the state in dram (512, 256 and 1600 MiB of
///   3 GiB)
/// - AdamW in fp32 with shares of 25, 50 and 75 %
/// - other types.
std::vector<StepCase> StepCases();
/// The fp32 case under the same budget in bytes.
StepCase OwnFp32(const StepCase& which);

/// Note [Floor of a step]
/// The state that is not in dram when a step begins has `kept - budget` bytes. A step reads and
/// writes each of these bytes, in whatever order, so 2 (kept - budget) bytes cross the link.
///
/// The processor reads and writes the bytes that the update moves. The disk reads and writes memory
/// for the bytes that cross the link. Both together are `moved + 2 kept (1 - b)` bytes, where b is
/// the share in dram. For AdamW in fp32 these are `28 + 24 (1 - b)` bytes per parameter.
double DiskBytes(const StepCase& which, std::uint64_t parameters);
double MemoryBytes(const StepCase& which, std::uint64_t parameters);

}  // namespace sluice::bench
