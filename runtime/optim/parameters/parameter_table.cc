#include "runtime/optim/parameters/parameter_table.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/errors.h"

namespace sluice::optim {
namespace {

/// Ids of bound parameters have this bit, which no tensor of a Runtime comes to.
constexpr std::uint64_t kBoundBit = std::uint64_t{1} << 63;

absl::Status CheckType(const ParameterBinding& parameter) {
  const DType type = parameter.type;
  if (type == DType::kBF16 || (type == DType::kF32 && !parameter.master)) return absl::OkStatus();
  if (type == DType::kF32) return Invalid("'{}' is f32, and so its own master", parameter.name);
  if (type != DType::kF16) {
    return Invalid(
        "'{}' is {}; bound parameters are f32, bf16 or f16", parameter.name, ToString(type));
  }
  if (parameter.master) return absl::OkStatus();
  return Invalid("'{}' is f16, which needs a master (ParameterBinding::master)", parameter.name);
}

absl::StatusOr<std::uint64_t> CountOf(const ParameterBinding& parameter) {
  std::uint64_t count = 1;
  for (const std::int64_t length : parameter.shape) {
    if (length < 1) return Invalid("'{}': a dimension of {} elements", parameter.name, length);
    // A product that overflows is not the size of the memory either.
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(length), &count)) {
      return Invalid("'{}': more elements than memory can have", parameter.name);
    }
  }
  return count;
}

absl::Status CheckBytes(const ParameterBinding& parameter, std::uint64_t count) {
  const std::span<const std::byte> bytes = parameter.bytes;
  const std::uint64_t size = SizeOf(parameter.type);
  if (bytes.data() == nullptr)
    return Invalid("'{}': the address of the parameter is null", parameter.name);
  if (bytes.size() % size != 0 || bytes.size() / size != count) {
    return Invalid("'{}': a parameter of {} bytes, its shape has {} elements of {}",
                   parameter.name,
                   bytes.size(),
                   count,
                   ToString(parameter.type));
  }
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size == 0) return absl::OkStatus();
  return Invalid("'{}': the address of the parameter is no multiple of {}, the bytes of an {}",
                 parameter.name,
                 size,
                 ToString(parameter.type));
}

ParameterEntry EntryOf(const ParameterBinding& parameter) {
  const bool fp32 = parameter.type == DType::kF32 || parameter.master;
  ParameterEntry entry{
      .name = parameter.name,
      .has_master = parameter.master,
      .type = fp32 ? ParameterType::kFp32 : ParameterType::kBf16,
      .count = parameter.bytes.size() / SizeOf(parameter.type),
      .shape = parameter.shape,
  };
  if (parameter.master) {
    entry.copy = CopyBinding{.type = parameter.type, .bytes = parameter.bytes};
  } else {
    entry.memory = parameter.bytes;
  }
  return entry;
}

/// Whether an update can lease the tensor, which it does in dram.
absl::Status CheckLeasable(const Runtime& runtime, TensorId tensor, AccessMode mode) {
  return base::Annotate(runtime.CheckAccess({.tensor = tensor, .mode = mode, .tier = kDram0}),
                        "an update needs it in dram");
}

/// `what`: name of the memory, the gradient or the copy of the entry.
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

absl::StatusOr<TensorId> ParameterTable::Bind(const ParameterBinding& parameter) {
  if (parameter.name.empty()) return Invalid("a parameter without a name");
  SLUICE_RETURN_IF_ERROR(CheckType(parameter));
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t count, CountOf(parameter));
  SLUICE_RETURN_IF_ERROR(CheckBytes(parameter, count));
  const TensorId id{kBoundBit | ++ids_};
  bound_.emplace(id.value, parameter);
  absl::Status apart = CheckAlone(id, bound_);
  if (apart.ok()) return id;
  bound_.erase(id.value);
  return apart;
}

absl::Status ParameterTable::Unbind(TensorId parameter) {
  const auto bound = bound_.find(parameter.value);
  if (bound == bound_.end()) return Invalid("there is no bound parameter {}", parameter.value);
  if (entry_of.contains(parameter.value)) {
    return Invalid("'{}' is in a group, which keeps it for good", bound->second.name);
  }
  bound_.erase(bound);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParameterTable::NameOf(TensorId parameter) const {
  const auto bound = bound_.find(parameter.value);
  if (bound != bound_.end()) return bound->second.name;
  return runtime_.NameOfTensor(parameter);
}

absl::StatusOr<ParameterEntry> ParameterTable::Describe(TensorId parameter) const {
  const auto bound = bound_.find(parameter.value);
  if (bound != bound_.end()) return EntryOf(bound->second);
  SLUICE_ASSIGN_OR_RETURN(std::string name, runtime_.NameOfTensor(parameter));
  SLUICE_ASSIGN_OR_RETURN(const DType type, runtime_.TypeOfTensor(parameter));
  SLUICE_ASSIGN_OR_RETURN(const Bytes bytes, runtime_.SizeOfTensor(parameter));
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, runtime_.ShapeOfTensor(parameter));
  if (type != DType::kF32 && type != DType::kBF16) {
    return Invalid("'{}' is {}; parameters are f32 or bf16", name, ToString(type));
  }
  SLUICE_RETURN_IF_ERROR(CheckLeasable(runtime_, parameter, AccessMode::kReadWrite));
  return ParameterEntry{.name = std::move(name),
                        .tensor = parameter,
                        .type = type == DType::kF32 ? ParameterType::kFp32 : ParameterType::kBf16,
                        .count = bytes.count() / SizeOf(type),
                        .shape = std::move(shape)};
}

absl::Status ParameterTable::CheckNew(const std::string& group,
                                      std::span<const TensorId> parameters) const {
  std::set<std::uint64_t> seen;
  for (const TensorId parameter : parameters) {
    SLUICE_ASSIGN_OR_RETURN(const std::string name, NameOf(parameter));
    if (entry_of.contains(parameter.value) || !seen.insert(parameter.value).second) {
      return Invalid("group '{}': '{}' has a group already", group, name);
    }
    if (const std::string use = UseOf(parameter, false); !use.empty()) {
      return Invalid("group '{}': '{}' is {}", group, name, use);
    }
  }
  return absl::OkStatus();
}

std::uint32_t ParameterTable::Add(TensorId parameter, ParameterEntry entry) {
  const auto index = static_cast<std::uint32_t>(entries.size());
  entry_of[parameter.value] = index;
  for (const TensorId state : entry.states) owner_of_[state.value] = index;
  for (const TensorId scale : entry.scales) owner_of_[scale.value] = index;
  if (entry.accumulator != TensorId()) owner_of_[entry.accumulator.value] = index;
  if (entry.has_master) owner_of_[entry.tensor.value] = index;
  entries.push_back(std::move(entry));
  return index;
}

absl::Status ParameterTable::CheckElements(const ParameterEntry& entry,
                                           DType type,
                                           std::span<const std::byte> bytes,
                                           TensorId tensor,
                                           AccessMode mode) const {
  const char* what = mode == AccessMode::kRead ? "gradient" : "copy";
  const std::uint64_t wanted = entry.count * SizeOf(type);
  if (tensor == TensorId()) return CheckMemory(entry, type, bytes, what);
  if (!bytes.empty())
    return Invalid("'{}': a {} in memory and as a tensor; give one of them", entry.name, what);
  SLUICE_ASSIGN_OR_RETURN(const std::string name, runtime_.NameOfTensor(tensor));
  SLUICE_ASSIGN_OR_RETURN(const DType has, runtime_.TypeOfTensor(tensor));
  SLUICE_ASSIGN_OR_RETURN(const Bytes size, runtime_.SizeOfTensor(tensor));
  if (has == type && size.count() == wanted) return CheckLeasable(runtime_, tensor, mode);
  return Invalid("'{}': the {} '{}' has {} elements of {}, wanted are {} of {}",
                 entry.name,
                 what,
                 name,
                 size.count() / SizeOf(has),
                 ToString(has),
                 entry.count,
                 ToString(type));
}

std::string ParameterTable::UseOf(TensorId tensor, bool but_as_gradient) const {
  if (const auto found = entry_of.find(tensor.value); found != entry_of.end()) {
    return fmt::format("a parameter of this optimizer, '{}'", entries[found->second].name);
  }
  if (const auto found = owner_of_.find(tensor.value); found != owner_of_.end()) {
    return fmt::format("a state or sum of '{}'", entries[found->second].name);
  }
  for (const ParameterEntry& entry : entries) {
    if (entry.copy && entry.copy->tensor == tensor) {
      return fmt::format("the copy of '{}'", entry.name);
    }
    if (!but_as_gradient && entry.gradient && entry.gradient->tensor == tensor) {
      return fmt::format("the gradient of '{}'", entry.name);
    }
  }
  return {};
}

absl::Status ParameterTable::RefuseUse(const ParameterEntry& entry,
                                       TensorId tensor,
                                       const char* what,
                                       const std::string& use) const {
  if (use.empty()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::string name, runtime_.NameOfTensor(tensor));
  return Invalid(
      "'{}': the {} '{}' is {}; give it a tensor of its own", entry.name, what, name, use);
}

absl::Status ParameterTable::CheckApart(const ParameterEntry& entry,
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
    if (Overlap(bytes, bound.second.bytes)) return refuse("parameter", bound.second.name);
  }
  for (const ParameterEntry& other : entries) {
    const bool itself = is_copy && &other == &entry;
    if (!itself && other.copy && Overlap(bytes, other.copy->bytes)) {
      return refuse("copy", other.name);
    }
    if (is_copy && other.gradient && Overlap(bytes, other.gradient->bytes)) {
      return refuse("gradient", other.name);
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice::optim
