#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/optimizer_impl.h"

namespace sluice {

using optim::Invalid;
using optim::ParameterEntry;

absl::Status OffloadedOptimizer::Impl::BindGradient(TensorId parameter,
                                                    const GradientBinding& gradient) {
  SLUICE_ASSIGN_OR_RETURN(ParameterEntry * entry, FindIdleEntry(parameter));
  if (!optim::GradientTypeOf(gradient.type)) {
    return Invalid(
        "'{}': gradients are f32, bf16 or f16, not {}", entry->name, ToString(gradient.type));
  }
  SLUICE_RETURN_IF_ERROR(table_.CheckElements(
      *entry, gradient.type, gradient.bytes, gradient.tensor, AccessMode::kRead));
  SLUICE_RETURN_IF_ERROR(table_.CheckApart(*entry, gradient.bytes, false));
  if (gradient.discard && gradient.tensor == TensorId()) {
    return Invalid("'{}': only a tensor can be discarded", entry->name);
  }
  if (gradient.tensor != TensorId()) {
    const std::string use = table_.UseOf(gradient.tensor, true);
    SLUICE_RETURN_IF_ERROR(table_.RefuseUse(*entry, gradient.tensor, "gradient", use));
  }
  entry->gradient = gradient;
  return absl::OkStatus();
}

absl::Status OffloadedOptimizer::Impl::BindCopy(TensorId parameter, const CopyBinding& copy) {
  SLUICE_ASSIGN_OR_RETURN(ParameterEntry * entry, FindIdleEntry(parameter));
  if (entry->has_master) {
    return Invalid("'{}' has a master, so the bound memory is its copy", entry->name);
  }
  if (entry->type != optim::ParameterType::kFp32) {
    return Invalid("'{}' is bf16, and so its own copy", entry->name);
  }
  if (copy.type != DType::kBF16 && copy.type != DType::kF16) {
    return Invalid("'{}': copies are bf16 or f16, not {}", entry->name, ToString(copy.type));
  }
  SLUICE_RETURN_IF_ERROR(
      table_.CheckElements(*entry, copy.type, copy.bytes, copy.tensor, AccessMode::kOverwrite));
  SLUICE_RETURN_IF_ERROR(table_.CheckApart(*entry, copy.bytes, true));
  const bool again = entry->copy && entry->copy->tensor == copy.tensor;
  if (copy.tensor != TensorId() && !again) {
    const std::string use = table_.UseOf(copy.tensor, false);
    SLUICE_RETURN_IF_ERROR(table_.RefuseUse(*entry, copy.tensor, "copy", use));
  }
  entry->copy = copy;
  return absl::OkStatus();
}

}  // namespace sluice
