#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/optimizer_impl.h"

// Parameters: tensors of the Runtime, and those in the caller's memory.

namespace sluice {
namespace {

using optim::Invalid;
using optim::ParameterEntry;

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
      .type = fp32 ? optim::ParameterType::kFp32 : optim::ParameterType::kBf16,
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

}  // namespace

absl::StatusOr<TensorId> OffloadedOptimizer::Impl::BindParameter(
    const ParameterBinding& parameter) {
  if (parameter.name.empty()) return Invalid("a parameter without a name");
  SLUICE_RETURN_IF_ERROR(CheckType(parameter));
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t count, CountOf(parameter));
  SLUICE_RETURN_IF_ERROR(CheckBytes(parameter, count));
  const auto refuse = [&](const char* what, const std::string& of) {
    return Invalid(
        "'{}': the memory of the parameter overlaps that of the {} '{}'; each parameter "
        "is bound once",
        parameter.name,
        what,
        of);
  };
  const std::span<const std::byte> bytes = parameter.bytes;
  for (const auto& bound : bound_) {
    if (optim::Overlap(bytes, bound.second.bytes)) return refuse("parameter", bound.second.name);
  }
  for (const ParameterEntry& entry : entries_) {
    if (entry.copy && optim::Overlap(bytes, entry.copy->bytes))
      return refuse("copy of", entry.name);
    if (entry.gradient && optim::Overlap(bytes, entry.gradient->bytes))
      return refuse("gradient of", entry.name);
  }
  const TensorId id{kBoundBit | ++ids_};
  bound_.emplace(id.value, parameter);
  return id;
}

absl::Status OffloadedOptimizer::Impl::UnbindParameter(TensorId parameter) {
  const auto bound = bound_.find(parameter.value);
  if (bound == bound_.end()) return Invalid("there is no bound parameter {}", parameter.value);
  if (entry_of_.contains(parameter.value)) {
    return Invalid("'{}' is in a group, which keeps it for good", bound->second.name);
  }
  bound_.erase(bound);
  return absl::OkStatus();
}

absl::StatusOr<std::string> OffloadedOptimizer::Impl::NameOf(TensorId parameter) const {
  const auto bound = bound_.find(parameter.value);
  if (bound != bound_.end()) return bound->second.name;
  return runtime_.NameOfTensor(parameter);
}

absl::StatusOr<ParameterEntry> OffloadedOptimizer::Impl::DescribeParameter(
    TensorId parameter) const {
  const auto bound = bound_.find(parameter.value);
  if (bound != bound_.end()) return EntryOf(bound->second);
  SLUICE_ASSIGN_OR_RETURN(std::string name, runtime_.NameOfTensor(parameter));
  SLUICE_ASSIGN_OR_RETURN(const DType type, runtime_.TypeOfTensor(parameter));
  SLUICE_ASSIGN_OR_RETURN(const Bytes bytes, runtime_.SizeOfTensor(parameter));
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, runtime_.ShapeOfTensor(parameter));
  if (type != DType::kF32 && type != DType::kBF16) {
    return Invalid("'{}' is {}; parameters are f32 or bf16", name, ToString(type));
  }
  return ParameterEntry{
      .name = std::move(name),
      .tensor = parameter,
      .type = type == DType::kF32 ? optim::ParameterType::kFp32 : optim::ParameterType::kBf16,
      .count = bytes.count() / SizeOf(type),
      .shape = std::move(shape)};
}

}  // namespace sluice
