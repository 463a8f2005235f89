#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/errors.h"
#include "runtime/optim/parameters/parameter_table.h"

// Gradients and copies that are bound to parameters, and other memory for bound ones.

namespace sluice::optim {
namespace {

bool CanReplace(std::span<const std::byte> bytes, const ParameterBinding& binding) {
  return bytes.data() != nullptr && bytes.size() == binding.bytes.size() &&
         reinterpret_cast<std::uintptr_t>(bytes.data()) % SizeOf(binding.type) == 0;
}

}  // namespace

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

absl::Status ParameterTable::CheckAlone(
    TensorId parameter, const std::map<std::uint64_t, ParameterBinding>& bound) const {
  const ParameterBinding& own = bound.at(parameter.value);
  const auto refuse = [&](const char* what, const std::string& of) {
    return Invalid(
        "'{}': the memory of the parameter overlaps that of the {} '{}'; each parameter "
        "is bound once",
        own.name,
        what,
        of);
  };
  for (const auto& [id, other] : bound) {
    if (id != parameter.value && Overlap(own.bytes, other.bytes)) {
      return refuse("parameter", other.name);
    }
  }
  for (const ParameterEntry& entry : entries) {
    // The memory of a parameter with a master is the copy of that.
    if (entry.copy && !entry.has_master && Overlap(own.bytes, entry.copy->bytes)) {
      return refuse("copy of", entry.name);
    }
    if (entry.gradient && Overlap(own.bytes, entry.gradient->bytes)) {
      return refuse("gradient of", entry.name);
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterTable::Move(std::span<const MovedParameter> moved) {
  std::map<std::uint64_t, ParameterBinding> bound = bound_;
  for (const MovedParameter& each : moved) {
    const auto found = bound.find(each.parameter.value);
    if (found == bound.end())
      return Invalid("there is no bound parameter {}", each.parameter.value);
    ParameterBinding& binding = found->second;
    if (!CanReplace(each.bytes, binding)) {
      return Invalid(
          "'{}': {} bytes at {} cannot replace {} bytes, which begin at a multiple of {}",
          binding.name,
          each.bytes.size(),
          static_cast<const void*>(each.bytes.data()),
          binding.bytes.size(),
          SizeOf(binding.type));
    }
    binding.bytes = each.bytes;
  }
  for (const MovedParameter& each : moved) {
    SLUICE_RETURN_IF_ERROR(CheckAlone(each.parameter, bound));
  }
  bound_ = std::move(bound);
  for (const MovedParameter& each : moved) {
    const auto entry = entry_of.find(each.parameter.value);
    if (entry != entry_of.end()) entries[entry->second].SetMemory(each.bytes);
  }
  return absl::OkStatus();
}

void ParameterTable::UnbindGradients() {
  for (ParameterEntry& entry : entries) {
    if (entry.gradient && entry.gradient->tensor == TensorId()) entry.gradient.reset();
  }
}

}  // namespace sluice::optim
