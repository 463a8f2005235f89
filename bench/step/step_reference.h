#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/optim/kernels/kernel.h"
#include "sluice/optimizer.h"

namespace sluice::bench {

/// Some elements of one tensor of a StepModel.
struct ReferenceRun {
  optim::KernelSpec spec;
  GroupRates rates;
  std::uint64_t tensor = 0;        ///< index in the order of the group
  std::uint64_t first_number = 0;  ///< index among all parameters of the tensor's first
  ElementRange elements;           ///< begins at a multiple of optim::kStateBlock
  std::span<const std::byte> gradients;
  std::int64_t steps = 0;
};

/// The bytes of the parameters after so many steps by the kernel, in plain memory. Errors:
/// InvalidArgument (no such kernel).
absl::StatusOr<std::vector<std::byte>> UpdateInMemory(const ReferenceRun& run);

}  // namespace sluice::bench
