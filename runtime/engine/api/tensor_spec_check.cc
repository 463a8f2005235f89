#include "runtime/engine/api/tensor_spec_check.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/weight_sums.h"

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

/// Tensors share a file home only where nothing is written and all lie in one file.
absl::Status CheckFileHome(const TensorSpec& spec, std::span<const TensorSpec> specs) {
  const std::optional<FileHome>& first = specs.front().file;
  if (spec.file.has_value() != first.has_value() || (spec.file && spec.file->path != first->path)) {
    return absl::InvalidArgumentError(
        fmt::format("tensors '{}' and '{}' share a segment and must have one file, or none",
                    specs.front().name,
                    spec.name));
  }
  if (!spec.file) return absl::OkStatus();
  if (spec.file->block_sums != nullptr && !spec.file->read_only) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor '{}' has checksums of a file home that may be written; set read_only", spec.name));
  }
  if (specs.size() > 1 && !(spec.file->read_only && first->read_only)) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor '{}' has a file home that may be written and must be created alone", spec.name));
  }
  if (spec.file->read_only && spec.lowest == TierKind::kHbm) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor '{}' is read from its file into dram: its lowest tier cannot be hbm", spec.name));
  }
  return absl::OkStatus();
}

absl::Status CheckJoined(const TensorSpec& spec, std::span<const TensorSpec> specs) {
  if (spec.joined.empty()) return absl::OkStatus();
  if (specs.size() > 1 || spec.file || spec.reproduce) {
    return absl::InvalidArgumentError(
        fmt::format("tensor '{}' is joined of others: create it alone, without a file home and a "
                    "reproduce callback",
                    spec.name));
  }
  if (spec.lowest != TierKind::kHbm) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "tensor '{}' is joined of others in dram: its lowest tier cannot be hbm", spec.name));
}

/// Whether the tensors follow each other as in the file. REQUIRES: CheckFileHome.
absl::Status CheckOrderInFile(std::span<const TensorSpec> specs) {
  for (std::size_t i = 1; specs.front().file && i < specs.size(); ++i) {
    const TensorSpec& before = specs[i - 1];
    if (specs[i].file->offset >= before.file->offset + SizeOf(before).count()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "tensor '{}' must begin behind tensor '{}' in their file", specs[i].name, before.name));
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
          fmt::format("tensor '{}' is never in dram (lowest is hbm), where off_lease = readable "
                      "shows it: lower its `lowest`, or set off_lease to none",
                      spec.name));
    }
    SLUICE_RETURN_IF_ERROR(CheckFileHome(spec, specs));
    SLUICE_RETURN_IF_ERROR(CheckJoined(spec, specs));
  }
  return CheckOrderInFile(specs);
}

absl::Status CheckSumBlocks(const FileHome& home, Bytes page_bytes) {
  const bool whole = page_bytes.count() % io::kSumBlockBytes == 0;
  if (home.block_sums == nullptr || whole) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the checksums of {} are of blocks of 64 KiB, and page_bytes is {}: make it 64 "
                  "KiB or more, or set WeightOptions::sums to Use::kOff",
                  home.path,
                  ToString(page_bytes)));
}

}  // namespace sluice::engine
