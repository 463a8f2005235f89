#include "runtime/engine/api/tensor_spec_check.h"

#include <cstdint>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

constexpr std::uint64_t kTensorBytesMax = std::uint64_t{1} << 50;

template <typename Enum>
absl::Status CheckEnum(const TensorSpec& spec, const char* what, Enum value, Enum last) {
  if (value <= last) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "tensor '{}' has a {} of {}, which is none", spec.name, what, static_cast<int>(value)));
}

absl::Status CheckEnums(const TensorSpec& spec) {
  SLUICE_RETURN_IF_ERROR(CheckEnum(spec, "dtype", spec.dtype, DType::kI64));
  SLUICE_RETURN_IF_ERROR(CheckEnum(spec, "kind", spec.kind, TensorKind::kOther));
  SLUICE_RETURN_IF_ERROR(CheckEnum(spec, "off_lease", spec.off_lease, OffLease::kReadable));
  return CheckEnum(spec, "lowest tier", spec.lowest, TierKind::kNvme);
}

absl::Status CheckShape(const TensorSpec& spec) {
  std::uint64_t bytes = SizeOf(spec.dtype);
  for (const std::int64_t extent : spec.shape) {
    if (extent <= 0) {
      return absl::InvalidArgumentError(
          fmt::format("tensor '{}' has an extent of {}; all must be above 0", spec.name, extent));
    }
    if (static_cast<std::uint64_t>(extent) > kTensorBytesMax / bytes) {
      return absl::InvalidArgumentError(fmt::format("tensor '{}' is larger than 1 PiB", spec.name));
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTensorSpecs(std::span<const TensorSpec> specs) {
  if (specs.empty()) return absl::InvalidArgumentError("no tensors to create");
  for (const TensorSpec& spec : specs) {
    SLUICE_RETURN_IF_ERROR(CheckEnums(spec));
    SLUICE_RETURN_IF_ERROR(CheckShape(spec));
    if (spec.lowest != specs.front().lowest) {
      return absl::InvalidArgumentError(
          fmt::format("tensors '{}' and '{}' share a segment and must have the same lowest tier",
                      specs.front().name,
                      spec.name));
    }
    if (spec.off_lease != specs.front().off_lease) {
      return absl::InvalidArgumentError(
          fmt::format("tensors '{}' and '{}' share a segment and must have the same off_lease",
                      specs.front().name,
                      spec.name));
    }
    if (spec.off_lease == OffLease::kReadable && spec.lowest == TierKind::kHbm) {
      return absl::InvalidArgumentError(
          fmt::format("tensor '{}' is never in dram (lowest is hbm), where off_lease = kReadable "
                      "shows it: lower its `lowest`, or use OffLease::kNone",
                      spec.name));
    }
    if (spec.file && specs.size() > 1) {
      return absl::InvalidArgumentError(
          fmt::format("tensor '{}' has a file home and must be created alone", spec.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice::engine
