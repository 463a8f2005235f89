#include "tools/support/safetensors/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"
#include "tools/support/safetensors/header_events.h"

namespace sluice::tools {
namespace {

constexpr std::array<std::string_view, 7> kTypeNames = {
    "F32", "F16", "BF16", "I8", "U8", "I32", "I64"};

std::optional<DType> TypeCalled(std::string_view name) {
  const auto found = std::find(kTypeNames.begin(), kTypeNames.end(), name);
  if (found == kTypeNames.end()) return std::nullopt;
  return static_cast<DType>(found - kTypeNames.begin());
}

template <typename... Args>
absl::Status BadHeader(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Args>(args)...));
}

/// The bytes of a tensor; none where 64 bits do not hold their number, or the shape's numbers.
std::optional<std::uint64_t> BytesOf(const std::vector<std::uint64_t>& shape, DType dtype) {
  std::uint64_t bytes = SizeOf(dtype);
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const std::uint64_t extent : shape) {
    if (extent > kMost) return std::nullopt;
    if (extent != 0 && bytes > kMost / extent) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

absl::StatusOr<SafetensorsEntry> ToEntry(const HeaderTensor& raw, std::uint64_t data_bytes) {
  const std::string shown = ShownName(raw.name);
  if (!raw.dtype || !raw.shape || !raw.offsets) {
    const char* const missing = !raw.dtype ? "dtype" : !raw.shape ? "shape" : "data_offsets";
    return BadHeader("tensor {} has no \"{}\"", shown, missing);
  }
  const std::optional<DType> dtype = TypeCalled(*raw.dtype);
  if (!dtype) {
    return BadHeader("tensor {} has the dtype {}; known are {}: convert it",
                     shown,
                     ShownName(*raw.dtype),
                     fmt::join(kTypeNames, ", "));
  }
  const std::optional<std::uint64_t> bytes = BytesOf(*raw.shape, *dtype);
  if (!bytes) return BadHeader("tensor {} has a shape of more than 2^63 bytes", shown);
  if (raw.offsets->size() != 2) {
    return BadHeader("tensor {} has {} data_offsets, of 2", shown, raw.offsets->size());
  }
  const std::uint64_t begin = raw.offsets->front();
  const std::uint64_t end = raw.offsets->back();
  if (begin > end || end > data_bytes) {
    return BadHeader(
        "tensor {} has data_offsets {} to {}, of {} bytes: the file is cut short or "
        "damaged; write it again",
        shown,
        begin,
        end,
        data_bytes);
  }
  if (end - begin != *bytes) {
    return BadHeader("tensor {} has {} bytes by its data_offsets and {} by its shape",
                     shown,
                     end - begin,
                     *bytes);
  }
  return SafetensorsEntry{.name = raw.name,
                          .dtype = *dtype,
                          .shape = {raw.shape->begin(), raw.shape->end()},
                          .offset = begin,
                          .bytes = *bytes};
}

/// Every byte belongs to one tensor.
absl::Status CheckPlaces(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_bytes) {
  std::uint64_t next = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.offset != next) {
      return BadHeader(
          "tensor {} begins at byte {}, and {} comes next: tensors overlap or leave a "
          "gap; write the file again",
          ShownName(tensor.name),
          tensor.offset,
          next);
    }
    next += tensor.bytes;
  }
  if (next == data_bytes) return absl::OkStatus();
  return BadHeader(
      "its tensors have {} bytes, and {} follow its header: the file is not whole or "
      "has too much; write it again",
      next,
      data_bytes);
}

}  // namespace

std::string_view SafetensorsName(DType dtype) {
  return kTypeNames[static_cast<std::size_t>(dtype)];
}

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                         std::uint64_t data_bytes) {
  SLUICE_ASSIGN_OR_RETURN(HeaderContent content, ReadHeaderContent(json));
  SafetensorsHeader header{.metadata = std::move(content.metadata)};
  header.tensors.reserve(content.tensors.size());
  for (const HeaderTensor& raw : content.tensors) {
    SLUICE_ASSIGN_OR_RETURN(SafetensorsEntry entry, ToEntry(raw, data_bytes));
    header.tensors.push_back(std::move(entry));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  SLUICE_RETURN_IF_ERROR(CheckPlaces(header.tensors, data_bytes));
  return header;
}

}  // namespace sluice::tools
