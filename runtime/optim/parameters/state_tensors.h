#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/parameters/parameter_table.h"
#include "sluice/optimizer.h"
#include "sluice/runtime.h"

namespace sluice::optim {

/// A parameter that is new, and its tensors that are to be created: states, scales, accumulator,
/// master.
struct NewEntry {
  ParameterEntry entry;
  std::vector<TensorSpec> specs;
};

/// The tensors that an optimizer makes for its parameters, and the room that they need. Threads:
/// externally synchronised.
class StateTensors {
 public:
  /// All parameters outlive this object.
  StateTensors(Runtime& runtime, const OptimizerOptions& options, const ParameterTable& table)
      : runtime_(runtime), options_(options), table_(table) {}

  /// Describes a new parameter and its tensors. Errors: those of ParameterTable::Describe.
  absl::StatusOr<NewEntry> Describe(TensorId parameter, std::uint32_t group) const;
  /// Whether dram has room for one part of each, beside all sums that stay there. Errors:
  /// ResourceExhausted.
  absl::Status CheckDram(const std::string& group, const std::vector<NewEntry>& entries) const;
  /// Creates the tensors. Then checks the room again, as the bytes that stay in dram are known
  /// then. Errors: ResourceExhausted, those of Runtime::CreateTensors. Callers Free each entry
  /// after an error.
  absl::Status Create(const std::string& group, std::vector<NewEntry>* entries) const;
  void Free(const ParameterEntry& entry) const;
  /// The tensors of an entry, in the order of its specs.
  std::vector<TensorId*> TensorsOf(ParameterEntry& entry) const;

 private:
  /// Bytes of dram for the pages of one part. `large_tensors`: number of its large tensors.
  Bytes BytesNeeded(const ParameterEntry& entry, std::int64_t large_tensors) const;
  Bytes SumsInDram(const std::vector<NewEntry>& more) const;
  absl::Status CheckRoom(const std::string& group, const std::vector<NewEntry>& entries) const;

  Runtime& runtime_;
  const OptimizerOptions& options_;
  const ParameterTable& table_;
};

}  // namespace sluice::optim
