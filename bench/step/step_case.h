#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::bench {

/// What the time of a step is held to.
enum class StepFloor : std::uint8_t {
  kDisk,          ///< the disk's time for the bytes that must move
  kDiskOrMemory,  ///< the disk's time, or memory's for the bytes of update and disk
  kOwnFp32        ///< our own step with fp32 parameters and states, under the same budget
};

struct StepCase {
  optim::KernelSpec spec;
  /// What fits in dram: so many percent of the parameters and states, or, where that is 0, so many
  /// bytes per parameter.
  int percent = 0;
  double budget_bytes_per_parameter = 2;
  StepFloor floor = StepFloor::kDisk;
  /// The time that is asked for, as a multiple of the floor; 0: the case is only reported.
  double limit = 0;
};

/// Parameters and states, by BytesPerElement.
double KeptBytes(const StepCase& which, std::uint64_t parameters);
std::uint64_t BudgetBytes(const StepCase& which, std::uint64_t parameters);
/// "adamw/fp32/fp32/512MiB", "adamw/fp32/fp32/25%". The gradients are fp32 beside fp32 parameters,
/// else bf16.
std::string CaseName(const StepCase& which, std::uint64_t parameters);

/// AdamW with a sixth, a twelfth and half of the fp32 state in dram (512, 256 and 1600 MiB of 3
/// GiB), with shares of 25, 50 and 75 %, and with other types.
std::vector<StepCase> StepCases();
/// The fp32 case under the same budget in bytes.
StepCase OwnFp32(const StepCase& which);

/// Note [Floor of a step]
/// Whatever the order, a step reads and writes every byte of the state that is not in dram when it
/// begins: 2 (kept - budget) bytes cross the link. The processor reads and writes what the update
/// moves, and the disk reads and writes memory for what crosses: with a share b in dram that is
/// moved + 2 kept (1 - b), for AdamW in fp32 28 + 24 (1 - b) bytes per parameter.
double DiskBytes(const StepCase& which, std::uint64_t parameters);
double MemoryBytes(const StepCase& which, std::uint64_t parameters);

}  // namespace sluice::bench
