#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/step/range_sweep.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// States and masters of parameters as fp32 values, read or written. Calls block. REQUIRES: no step
/// is under way. Errors: InvalidArgument (no such state, no master), those of Ticket::Take.
class ParameterValues {
 public:
  /// `elements`: elements of one op. `runtime` and `optimizer` outlive this object.
  ParameterValues(Runtime& runtime, const OptimizerOptions& optimizer, std::uint64_t elements)
      : runtime_(runtime), optimizer_(optimizer), elements_(elements) {}

  // The number of values is that of the parameter's elements.
  absl::Status ReadState(const ParameterEntry& entry,
                         std::size_t state,
                         std::span<float> values) const;
  absl::Status WriteState(const ParameterEntry& entry,
                          std::size_t state,
                          std::span<const float> values) const;
  absl::Status ReadMaster(const ParameterEntry& entry, std::span<float> values) const;
  absl::Status WriteMaster(const ParameterEntry& entry, std::span<const float> values) const;
  /// Takes the master's new value from the bound memory.
  absl::Status TakeMaster(const ParameterEntry& entry) const;

 private:
  using MasterWork =
      std::function<absl::Status(ElementRange range, const std::vector<Lease>& leases)>;
  RangeSweep MasterSweep(const ParameterEntry& entry,
                         AccessMode mode,
                         const MasterWork& work) const;

  Runtime& runtime_;
  const OptimizerOptions& optimizer_;
  const std::uint64_t elements_;
};

}  // namespace sluice::optim
