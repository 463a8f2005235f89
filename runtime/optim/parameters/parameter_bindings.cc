#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/errors.h"
#include "runtime/optim/parameters/parameter_table.h"

// Gradients and copies that are bound to parameters.

namespace sluice::optim {

absl::Status ParameterTable::BindGradient(ParameterEntry& entry, const GradientBinding& gradient) {
  if (!GradientTypeOf(gradient.type)) {
    return Invalid(
        "'{}': gradients are f32, bf16 or f16, not {}", entry.name, ToString(gradient.type));
  }
  SLUICE_RETURN_IF_ERROR(
      CheckElements(entry, gradient.type, gradient.bytes, gradient.tensor, AccessMode::kRead));
  SLUICE_RETURN_IF_ERROR(CheckApart(entry, gradient.bytes, false));
  if (gradient.discard && gradient.tensor == TensorId()) {
    return Invalid("'{}': only a tensor can be discarded", entry.name);
  }
  if (gradient.tensor != TensorId()) {
    const std::string use = UseOf(gradient.tensor, true);
    SLUICE_RETURN_IF_ERROR(RefuseUse(entry, gradient.tensor, "gradient", use));
  }
  entry.gradient = gradient;
  return absl::OkStatus();
}

absl::Status ParameterTable::BindCopy(ParameterEntry& entry, const CopyBinding& copy) {
  if (entry.has_master) {
    return Invalid("'{}' has a master, so the bound memory is its copy", entry.name);
  }
  if (entry.type != ParameterType::kFp32) {
    return Invalid("'{}' is bf16, and so its own copy", entry.name);
  }
  if (copy.type != DType::kBF16 && copy.type != DType::kF16) {
    return Invalid("'{}': copies are bf16 or f16, not {}", entry.name, ToString(copy.type));
  }
  SLUICE_RETURN_IF_ERROR(
      CheckElements(entry, copy.type, copy.bytes, copy.tensor, AccessMode::kOverwrite));
  SLUICE_RETURN_IF_ERROR(CheckApart(entry, copy.bytes, true));
  const bool again = entry.copy && entry.copy->tensor == copy.tensor;
  if (copy.tensor != TensorId() && !again) {
    const std::string use = UseOf(copy.tensor, false);
    SLUICE_RETURN_IF_ERROR(RefuseUse(entry, copy.tensor, "copy", use));
  }
  entry.copy = copy;
  return absl::OkStatus();
}

}  // namespace sluice::optim
