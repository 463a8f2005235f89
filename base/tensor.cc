#include "sluice/tensor.h"

#include <array>

#include "base/check.h"

namespace sluice {
namespace {

struct DTypeFacts {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<DTypeFacts, 7> kDTypes = {
    {{"f32", 4}, {"f16", 2}, {"bf16", 2}, {"i8", 1}, {"u8", 1}, {"i32", 4}, {"i64", 8}}};
constexpr std::array<std::string_view, kTensorKindCount> kKindNames = {
    "parameter", "gradient", "optimizer", "activation", "kv", "other"};
constexpr std::array<std::string_view, 3> kModeNames = {"read", "read_write", "overwrite"};
constexpr std::array<std::string_view, 2> kOffLeaseNames = {"none", "readable"};

/// Name of a number that a caller made an enum of, so that messages can refuse it.
constexpr std::string_view kUnknown = "unknown";

template <std::size_t kCount, typename Enum>
std::string_view NameIn(const std::array<std::string_view, kCount>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < kCount ? names[index] : kUnknown;
}

}  // namespace

std::uint64_t SizeOf(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  SLUICE_CHECK(index < kDTypes.size(), "a dtype is one of the enumerators");
  return kDTypes[index].bytes;
}

std::string_view ToString(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kDTypes.size() ? kDTypes[index].name : kUnknown;
}

std::string_view ToString(TensorKind kind) { return NameIn(kKindNames, kind); }

std::string_view ToString(AccessMode mode) { return NameIn(kModeNames, mode); }

std::string_view ToString(OffLease off_lease) { return NameIn(kOffLeaseNames, off_lease); }

Bytes SizeOf(const TensorSpec& spec) {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : spec.shape) {
    SLUICE_CHECK(extent >= 0, "extents are not negative");
    elements *= static_cast<std::uint64_t>(extent);
  }
  return Bytes(elements * SizeOf(spec.dtype));
}

}  // namespace sluice
