#include "bench/step/numbers.h"

#include <cstring>

namespace sluice::bench {
namespace {

/// The last rounds of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t Mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Sign and fraction of a random number, the exponent of another; the upper half is bf16.
std::uint32_t BitsOf(std::uint32_t exponent, std::uint64_t index) {
  return (static_cast<std::uint32_t>(Mixed(index)) & 0x807fffff) | exponent;
}

template <typename Word>
void FillWords(std::uint32_t exponent, std::uint64_t first, std::span<std::byte> out) {
  constexpr int kShift = 32 - 8 * static_cast<int>(sizeof(Word));
  for (std::size_t at = 0; at < out.size(); at += sizeof(Word)) {
    const auto word = static_cast<Word>(BitsOf(exponent, first++) >> kShift);
    std::memcpy(out.data() + at, &word, sizeof(Word));
  }
}

}  // namespace

void FillNumbers(Numbers kind,
                 std::size_t element_bytes,
                 std::uint64_t first,
                 std::span<std::byte> out) {
  constexpr std::uint32_t kExponentOfHalf = 0x3f000000;
  constexpr std::uint32_t kExponentOf128th = 0x3c000000;
  const bool parameters = kind == Numbers::kParameters;
  const std::uint32_t exponent = parameters ? kExponentOfHalf : kExponentOf128th;
  // Other indices, so that a gradient is no function of its parameter.
  const std::uint64_t from = parameters ? first : first + (std::uint64_t{1} << 60);
  if (element_bytes == 4) {
    FillWords<std::uint32_t>(exponent, from, out);
  } else {
    FillWords<std::uint16_t>(exponent, from, out);
  }
}

}  // namespace sluice::bench
