#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "runtime/optim/parameters/parameter_entry.h"

namespace sluice::optim {

/// Tensors with the gradients of a step. Parameters may share one, unless an update discards it:
/// the next update would read zeros. Threads: externally synchronised.
class StepGradients {
 public:
  /// Adds the gradients of a group that is ready. Errors: FailedPrecondition (names two parameters;
  /// nothing is added).
  absl::Status Add(const std::deque<ParameterEntry>& entries, std::span<const std::uint32_t> group);
  /// Forgets all of them.
  void Clear() { entry_of_.clear(); }

 private:
  absl::flat_hash_map<std::uint64_t, std::uint32_t> entry_of_;  ///< entry of each, by its id
};

}  // namespace sluice::optim
