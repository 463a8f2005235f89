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
constexpr std::array<std::string_view, 4> kModeNames = {"read", "write", "read_write", "overwrite"};

const DTypeFacts& FactsOf(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  SLUICE_CHECK(index < kDTypes.size(), "a dtype is one of the enumerators");
  return kDTypes[index];
}

}  // namespace

std::uint64_t SizeOf(DType dtype) { return FactsOf(dtype).bytes; }

std::string_view ToString(DType dtype) { return FactsOf(dtype).name; }

std::string_view ToString(TensorKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  SLUICE_CHECK(index < kKindNames.size(), "a tensor kind is one of the enumerators");
  return kKindNames[index];
}

std::string_view ToString(AccessMode mode) {
  const auto index = static_cast<std::size_t>(mode);
  SLUICE_CHECK(index < kModeNames.size(), "an access mode is one of the enumerators");
  return kModeNames[index];
}

Bytes SizeOf(const TensorSpec& spec) {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : spec.shape) {
    SLUICE_CHECK(extent >= 0, "extents are not negative");
    elements *= static_cast<std::uint64_t>(extent);
  }
  return Bytes(elements * SizeOf(spec.dtype));
}

}  // namespace sluice
