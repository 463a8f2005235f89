#include "io/safetensors/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"

namespace sluice::io {
namespace {

template <typename... Args>
absl::Status BadHeader(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Args>(args)...));
}

constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

/// The elements of a shape; none where its numbers, or its bytes, do not fit into 63 bits.
std::optional<std::uint64_t> ElementsOf(const std::vector<std::uint64_t>& shape,
                                        const ElementType& type) {
  const std::uint64_t most = kMost / std::max(1U, type.bits / 8);
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : shape) {
    if (extent > kMost) return std::nullopt;
    if (extent != 0 && elements > most / extent) return std::nullopt;
    elements *= extent;
  }
  return elements;
}

/// The bytes that a shape takes. Errors: InvalidArgument.
absl::StatusOr<std::uint64_t> BytesOf(const HeaderTensor& raw, const ElementType& type) {
  const std::optional<std::uint64_t> elements = ElementsOf(*raw.shape, type);
  const std::string shown = ShownName(raw.name);
  if (!elements) return BadHeader("tensor {} has a shape of more than 2^63 bytes", shown);
  // Eight elements at a time, as their bits fill whole bytes.
  const std::uint64_t bits_left = *elements % 8 * type.bits;
  if (bits_left % 8 != 0) {
    return BadHeader("tensor {} has {} elements of {} bits, which fill no whole bytes",
                     shown,
                     *elements,
                     type.bits);
  }
  return *elements / 8 * type.bits + bits_left / 8;
}

absl::StatusOr<SafetensorsEntry> ToEntry(const HeaderTensor& raw, std::uint64_t data_bytes) {
  const std::string shown = ShownName(raw.name);
  if (!raw.dtype || !raw.shape || !raw.offsets) {
    const char* const missing = !raw.dtype ? "dtype" : !raw.shape ? "shape" : "data_offsets";
    return BadHeader("tensor {} has no \"{}\"", shown, missing);
  }
  const ElementType* const type = FindElementType(*raw.dtype);
  if (type == nullptr) {
    return BadHeader("tensor {} has the dtype {}; known are {}",
                     shown,
                     ShownName(*raw.dtype),
                     ElementTypeNames());
  }
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t bytes, BytesOf(raw, *type));
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
  if (end - begin != bytes) {
    return BadHeader("tensor {} has {} bytes by its data_offsets and {} by its shape",
                     shown,
                     end - begin,
                     bytes);
  }
  return SafetensorsEntry{.name = raw.name,
                          .type = type,
                          .shape = {raw.shape->begin(), raw.shape->end()},
                          .offset = begin,
                          .bytes = bytes};
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

}  // namespace sluice::io
