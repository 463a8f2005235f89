#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::bench {

/// What numbers are for: their magnitude.
enum class Numbers : std::uint8_t {
  kParameters,  ///< 0.5 to 1, of either sign
  kGradients    ///< 1/128 to 1/64, of either sign
};

/// Fills `out` with fp32 (`element_bytes` 4) or bf16 (2) numbers that depend on nothing but their
/// index, from `first` on, and that no drive can make smaller.
void FillNumbers(Numbers kind,
                 std::size_t element_bytes,
                 std::uint64_t first,
                 std::span<std::byte> out);

}  // namespace sluice::bench
