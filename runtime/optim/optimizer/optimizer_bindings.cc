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

namespace {

/// `what`: the gradient or the copy of the entry.
absl::Status CheckMemory(const ParameterEntry& entry,
                         DType type,
                         std::span<const std::byte> bytes,
                         const char* what) {
  const std::uint64_t wanted = entry.count * SizeOf(type);
  if (bytes.empty()) return Invalid("'{}': a {} with neither bytes nor a tensor", entry.name, what);
  if (bytes.data() == nullptr)
    return Invalid("'{}': the address of the {} is null", entry.name, what);
  if (bytes.size() != wanted) {
    return Invalid("'{}': a {} of {} bytes, {} elements of {} (its type) have {}",
                   entry.name,
                   what,
                   bytes.size(),
                   entry.count,
                   ToString(type),
                   wanted);
  }
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % SizeOf(type) == 0) return absl::OkStatus();
  return Invalid("'{}': the address of the {} is no multiple of {}, the bytes of an {}",
                 entry.name,
                 what,
                 SizeOf(type),
                 ToString(type));
}

}  // namespace

absl::Status OffloadedOptimizer::Impl::CheckElements(const ParameterEntry& entry,
                                                     DType type,
                                                     std::span<const std::byte> bytes,
                                                     TensorId tensor,
                                                     const char* what) const {
  const std::uint64_t wanted = entry.count * SizeOf(type);
  if (tensor == TensorId()) return CheckMemory(entry, type, bytes, what);
  if (!bytes.empty())
    return Invalid("'{}': a {} in memory and as a tensor; give one of them", entry.name, what);
  SLUICE_ASSIGN_OR_RETURN(const std::string name, runtime_.NameOfTensor(tensor));
  SLUICE_ASSIGN_OR_RETURN(const DType has, runtime_.TypeOfTensor(tensor));
  SLUICE_ASSIGN_OR_RETURN(const Bytes size, runtime_.SizeOfTensor(tensor));
  if (has == type && size.count() == wanted) return absl::OkStatus();
  return Invalid("'{}': the {} '{}' has {} elements of {}, wanted are {} of {}",
                 entry.name,
                 what,
                 name,
                 size.count() / SizeOf(has),
                 ToString(has),
                 entry.count,
                 ToString(type));
}

std::string OffloadedOptimizer::Impl::UseOf(TensorId tensor, bool but_as_gradient) const {
  if (const auto found = entry_of_.find(tensor.value); found != entry_of_.end()) {
    return fmt::format("a parameter of this optimizer, '{}'", entries_[found->second].name);
  }
  if (const auto found = owner_of_.find(tensor.value); found != owner_of_.end()) {
    return fmt::format("a state or sum of '{}'", entries_[found->second].name);
  }
  for (const ParameterEntry& entry : entries_) {
    if (entry.copy && entry.copy->tensor == tensor) {
      return fmt::format("the copy of '{}'", entry.name);
    }
    if (!but_as_gradient && entry.gradient && entry.gradient->tensor == tensor) {
      return fmt::format("the gradient of '{}'", entry.name);
    }
  }
  return {};
}

absl::Status OffloadedOptimizer::Impl::RefuseUse(const ParameterEntry& entry,
                                                 TensorId tensor,
                                                 const char* what,
                                                 const std::string& use) const {
  if (use.empty()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::string name, runtime_.NameOfTensor(tensor));
  return Invalid(
      "'{}': the {} '{}' is {}; give it a tensor of its own", entry.name, what, name, use);
}

absl::Status OffloadedOptimizer::Impl::CheckApart(const ParameterEntry& entry,
                                                  std::span<const std::byte> bytes,
                                                  bool is_copy) const {
  const auto refuse = [&](const char* other, const std::string& of) {
    return Invalid("'{}': the memory of the {} overlaps that of the {} of '{}'; give it its own",
                   entry.name,
                   is_copy ? "copy" : "gradient",
                   other,
                   of);
  };
  for (const auto& bound : bound_) {
    if (optim::Overlap(bytes, bound.second.bytes)) return refuse("parameter", bound.second.name);
  }
  for (const ParameterEntry& other : entries_) {
    const bool itself = is_copy && &other == &entry;
    if (!itself && other.copy && optim::Overlap(bytes, other.copy->bytes)) {
      return refuse("copy", other.name);
    }
    if (is_copy && other.gradient && optim::Overlap(bytes, other.gradient->bytes)) {
      return refuse("gradient", other.name);
    }
  }
  return absl::OkStatus();
}

absl::Status OffloadedOptimizer::Impl::BindGradient(TensorId parameter,
                                                    const GradientBinding& gradient) {
  SLUICE_ASSIGN_OR_RETURN(ParameterEntry * entry, FindIdleEntry(parameter));
  if (!optim::GradientTypeOf(gradient.type)) {
    return Invalid(
        "'{}': gradients are f32, bf16 or f16, not {}", entry->name, ToString(gradient.type));
  }
  SLUICE_RETURN_IF_ERROR(
      CheckElements(*entry, gradient.type, gradient.bytes, gradient.tensor, "gradient"));
  SLUICE_RETURN_IF_ERROR(CheckApart(*entry, gradient.bytes, false));
  if (gradient.discard && gradient.tensor == TensorId()) {
    return Invalid("'{}': only a tensor can be discarded", entry->name);
  }
  if (gradient.tensor != TensorId()) {
    const std::string use = UseOf(gradient.tensor, true);
    SLUICE_RETURN_IF_ERROR(RefuseUse(*entry, gradient.tensor, "gradient", use));
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
  SLUICE_RETURN_IF_ERROR(CheckElements(*entry, copy.type, copy.bytes, copy.tensor, "copy"));
  SLUICE_RETURN_IF_ERROR(CheckApart(*entry, copy.bytes, true));
  const bool again = entry->copy && entry->copy->tensor == copy.tensor;
  if (copy.tensor != TensorId() && !again) {
    const std::string use = UseOf(copy.tensor, false);
    SLUICE_RETURN_IF_ERROR(RefuseUse(*entry, copy.tensor, "copy", use));
  }
  entry->copy = copy;
  return absl::OkStatus();
}

}  // namespace sluice
