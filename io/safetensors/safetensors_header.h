#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/safetensors/element_type.h"

/// The header of a safetensors file: JSON that names each tensor's type, shape and bytes.

namespace sluice::io {

/// Bytes of a header that readers of the format accept at most.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

/// A tensor of a file.
struct SafetensorsEntry {
  std::string name;
  const ElementType* type = nullptr;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< first byte, counted from the end of the header
  std::uint64_t bytes = 0;

  /// Number of elements; 0 where an extent is 0.
  std::uint64_t count() const {
    return bytes / type->bits * 8 + bytes % type->bits * 8 / type->bits;
  }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  ///< sorted by offset
  std::map<std::string, std::string> metadata;
};

/// "[2, 3]", for messages.
std::string ShapeText(const std::vector<std::int64_t>& shape);

/// Parses any bytes, padded or not; `data_bytes` follow the header in the file. Errors:
/// InvalidArgument, with tensor and field:
/// - not the JSON of a header, a name given twice, or an unknown type.
/// - elements of less than a byte that fill no whole bytes.
/// - offsets that overlap, leave gaps or contradict shape and file.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                         std::uint64_t data_bytes);

}  // namespace sluice::io
