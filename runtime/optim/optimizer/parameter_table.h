#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/optim/optimizer/parameter_entry.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// What an optimizer knows of its parameters, and what each tensor and piece of memory is to it.
/// Parameters are tensors of the Runtime, or memory of the caller that Bind gave an id. Errors are
/// InvalidArgument, and those of the Runtime about a tensor.
class ParameterTable {
 public:
  /// `runtime` outlives the table.
  explicit ParameterTable(Runtime& runtime) : runtime_(runtime) {}
  ParameterTable(const ParameterTable&) = delete;
  ParameterTable& operator=(const ParameterTable&) = delete;

  absl::StatusOr<TensorId> Bind(const ParameterBinding& parameter);
  absl::Status Unbind(TensorId parameter);

  /// Name of a bound parameter, or of a tensor of the Runtime.
  absl::StatusOr<std::string> NameOf(TensorId parameter) const;
  /// What is known of the parameter itself: name, type, count, shape, where it is.
  absl::StatusOr<ParameterEntry> Describe(TensorId parameter) const;

  /// Whether `bytes`, or else `tensor`, hold as many elements of the type as the entry has.
  /// `mode`: kRead for the entry's gradient, kOverwrite for its copy. A tensor has to be leasable
  /// so, too.
  absl::Status CheckElements(const ParameterEntry& entry,
                             DType type,
                             std::span<const std::byte> bytes,
                             TensorId tensor,
                             AccessMode mode) const;
  /// What this optimizer has the tensor for, in words; empty: nothing, or (`but_as_gradient`) only
  /// the gradients of others, which may share one.
  std::string UseOf(TensorId tensor, bool but_as_gradient) const;
  absl::Status RefuseUse(const ParameterEntry& entry,
                         TensorId tensor,
                         const char* what,
                         const std::string& use) const;
  /// Whether memory for the entry's copy, else its gradient, overlaps none of which an update would
  /// write the one and read, or write, the other.
  absl::Status CheckApart(const ParameterEntry& entry,
                          std::span<const std::byte> bytes,
                          bool is_copy) const;

  std::deque<ParameterEntry> entries;
  std::map<std::uint64_t, std::uint32_t> entry_of;  ///< entry of each parameter, by its id
  std::map<std::uint64_t, std::uint32_t> owner_of;  ///< entry of each state, scale, accumulator

 private:
  Runtime& runtime_;
  std::map<std::uint64_t, ParameterBinding> bound_;  ///< parameters in memory, by their ids
  std::uint64_t ids_ = 0;                            ///< ids that Bind has given
};

}  // namespace sluice::optim
