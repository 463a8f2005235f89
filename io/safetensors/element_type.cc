#include "io/safetensors/element_type.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "fmt/format.h"

namespace sluice::io {
namespace {

constexpr std::array<ElementType, 22> kElementTypes = {{{"BOOL", 8, std::nullopt},
                                                        {"F4", 4, std::nullopt},
                                                        {"F6_E2M3", 6, std::nullopt},
                                                        {"F6_E3M2", 6, std::nullopt},
                                                        {"U8", 8, DType::kU8},
                                                        {"I8", 8, DType::kI8},
                                                        {"F8_E5M2", 8, std::nullopt},
                                                        {"F8_E4M3", 8, std::nullopt},
                                                        {"F8_E8M0", 8, std::nullopt},
                                                        {"F8_E4M3FNUZ", 8, std::nullopt},
                                                        {"F8_E5M2FNUZ", 8, std::nullopt},
                                                        {"I16", 16, std::nullopt},
                                                        {"U16", 16, std::nullopt},
                                                        {"F16", 16, DType::kF16},
                                                        {"BF16", 16, DType::kBF16},
                                                        {"I32", 32, DType::kI32},
                                                        {"U32", 32, std::nullopt},
                                                        {"F32", 32, DType::kF32},
                                                        {"C64", 64, std::nullopt},
                                                        {"F64", 64, std::nullopt},
                                                        {"I64", 64, DType::kI64},
                                                        {"U64", 64, std::nullopt}}};

}  // namespace

const ElementType* FindElementType(std::string_view name) {
  const auto* const found =
      std::find_if(kElementTypes.begin(), kElementTypes.end(), [&](const ElementType& type) {
        return type.name == name;
      });
  return found == kElementTypes.end() ? nullptr : found;
}

std::string ElementTypeNames() {
  std::string names;
  for (const ElementType& type : kElementTypes) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
  }
  return names;
}

std::string_view SafetensorsName(DType dtype) {
  const auto* const found =
      std::find_if(kElementTypes.begin(), kElementTypes.end(), [&](const ElementType& type) {
        return type.dtype == dtype;
      });
  SLUICE_CHECK(found != kElementTypes.end(), "each dtype has a name in the format");
  return found->name;
}

}  // namespace sluice::io
