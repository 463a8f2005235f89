#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::bench {

/// Kind of the numbers, which decides their magnitude.
enum class Numbers : std::uint8_t {
  kParameters,  ///< 0.5 to 1, of either sign
  kGradients    ///< 1/128 to 1/64, of either sign
};

/// Fills `out` with fp32 (`element_bytes` 4) or bf16 (2) numbers. Each depends on its index alone;
/// `first` is the index of the first. No drive can compress them.
void FillNumbers(Numbers kind,
                 std::size_t element_bytes,
                 std::uint64_t first,
                 std::span<std::byte> out);

}  // namespace sluice::bench
