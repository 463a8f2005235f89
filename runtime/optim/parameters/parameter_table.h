#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// Parameters of an optimizer, and the use that it has for each tensor and piece of memory.
class ParameterTable {
 public:
  /// `runtime` outlives the table.
  explicit ParameterTable(Runtime& runtime) : runtime_(runtime) {}
  ParameterTable(const ParameterTable&) = delete;
  ParameterTable& operator=(const ParameterTable&) = delete;

  absl::StatusOr<TensorId> Bind(const ParameterBinding& parameter);
  absl::Status Unbind(TensorId parameter);
  /// Gives bound parameters other memory, all or none. Errors: InvalidArgument.
  absl::Status Move(std::span<const MovedParameter> moved);
  /// Forgets the gradients in memory.
  void UnbindGradients();

  /// Name of a bound parameter, or of a tensor of the Runtime.
  absl::StatusOr<std::string> NameOf(TensorId parameter) const;
  /// Entry with the parameter's own facts: name, type, count, shape, place.
  absl::StatusOr<ParameterEntry> Describe(TensorId parameter) const;

  /// Whether the parameters of a new group have no group yet, and no other use. Errors:
  /// InvalidArgument, those of NameOf.
  absl::Status CheckNew(const std::string& group, std::span<const TensorId> parameters) const;
  /// Adds the entry of a parameter, all of whose tensors exist. Returns its number in `entries`.
  std::uint32_t Add(TensorId parameter, ParameterEntry entry);

  /// Binds a gradient in place of an earlier one. `entry` is one of this table. Errors:
  /// InvalidArgument, those of Runtime::CheckAccess.
  absl::Status BindGradient(ParameterEntry& entry, const GradientBinding& gradient);
  /// Binds a copy in the same way.
  absl::Status BindCopy(ParameterEntry& entry, const CopyBinding& copy);

  std::deque<ParameterEntry> entries;
  std::map<std::uint64_t, std::uint32_t> entry_of;  ///< entry of each parameter, by its id

 private:
  /// Whether `bytes`, or else `tensor`, hold as many elements of the type as the entry has.
  /// `mode`: kRead for the entry's gradient, kOverwrite for its copy. A tensor has to be leasable
  /// in that mode, too.
  absl::Status CheckElements(const ParameterEntry& entry,
                             DType type,
                             std::span<const std::byte> bytes,
                             TensorId tensor,
                             AccessMode mode) const;
  /// Use that this optimizer has for the tensor, in words; empty: none. `but_as_gradient`: use as
  /// the gradient of other parameters, which may share one, does not count.
  std::string UseOf(TensorId tensor, bool but_as_gradient) const;
  /// Whether the memory of a parameter is apart from that of `bound`, but for itself, and from all
  /// copies and gradients.
  absl::Status CheckAlone(TensorId parameter,
                          const std::map<std::uint64_t, ParameterBinding>& bound) const;
  absl::Status RefuseUse(const ParameterEntry& entry,
                         TensorId tensor,
                         const char* what,
                         const std::string& use) const;
  /// Whether memory for the entry's copy, else its gradient, is apart from other memory. Two pieces
  /// may overlap only if no update writes the one and reads, or writes, the other.
  absl::Status CheckApart(const ParameterEntry& entry,
                          std::span<const std::byte> bytes,
                          bool is_copy) const;

  Runtime& runtime_;
  /// Entry of each state, scale, accumulator and master, by its id.
  std::map<std::uint64_t, std::uint32_t> owner_of_;
  std::map<std::uint64_t, ParameterBinding> bound_;  ///< parameters in memory, by their ids
  std::uint64_t ids_ = 0;                            ///< ids that Bind has given
};

}  // namespace sluice::optim
