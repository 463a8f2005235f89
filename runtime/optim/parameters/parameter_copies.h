#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/parameters/parameter_table.h"
#include "runtime/optim/step/pieces.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// Writes bytes of a tensor, from `offset` on.
using FillFn = std::function<absl::Status(std::uint64_t offset, std::span<std::byte> out)>;

/// Writes copies of fp32 elements. Threads: any, on memory that does not overlap.
void CopyElements(const Pieces& parameters, const Pieces& copy, CopyType type, std::size_t count);

/// Low-precision copies of parameters (BindCopy), where no update writes them. Calls block.
/// REQUIRES: no step is under way. Errors: those of Ticket::Take.
class ParameterCopies {
 public:
  /// `elements`: elements of an fp32 page. The others outlive this object.
  ParameterCopies(Runtime& runtime,
                  const OptimizerOptions& optimizer,
                  const ParameterTable& table,
                  std::uint64_t elements)
      : runtime_(runtime), optimizer_(optimizer), table_(table), elements_(elements) {}

  /// Writes the copies of those entries that have one, from the parameters as they are.
  absl::Status Refresh(std::span<const std::uint32_t> entries) const;
  /// Writes the copy from the parameter as it is; or, unless it is empty, has `fill` write the
  /// parameter, and the copy from that. REQUIRES: a copy is bound. Errors: those of `fill`.
  absl::Status Write(const ParameterEntry& entry, const FillFn& fill) const;

 private:
  Runtime& runtime_;
  const OptimizerOptions& optimizer_;
  const ParameterTable& table_;
  const std::uint64_t elements_;
};

}  // namespace sluice::optim
