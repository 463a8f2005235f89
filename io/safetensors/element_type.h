#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/tensor.h"

namespace sluice::io {

/// A type that the safetensors format knows.
struct ElementType {
  std::string_view name;   ///< name in the format: "BF16"
  std::uint32_t bits = 0;  ///< bits of one element; less than 8 where elements are packed
  /// Type of a tensor with such elements; none: the tensor is paged as bytes.
  std::optional<DType> dtype;
};

/// Type of the name; null for a name that the format does not know.
const ElementType* FindElementType(std::string_view name);
/// All names, for messages: "BOOL, F4, ...".
std::string ElementTypeNames();
/// "F32", as the format calls a type.
std::string_view SafetensorsName(DType dtype);

}  // namespace sluice::io
