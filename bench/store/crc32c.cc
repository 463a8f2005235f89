#include "bench/store/crc32c.h"

#include <immintrin.h>

#include <array>
#include <cstring>

namespace sluice::bench {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
/// Of each stream, in bytes. The three of them fit the first cache beside each other.
constexpr std::size_t kBlock = 4096;

std::uint64_t WordAt(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  return word;
}

__attribute__((target("sse4.2"))) std::uint64_t AppendZeros(std::uint64_t crc, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes / kWord; ++i) crc = _mm_crc32_u64(crc, 0);
  return crc;
}

/// What becomes of a register when kBlock bytes of zeros follow: linear, so a table for each byte.
class ShiftTable {
 public:
  ShiftTable() {
    for (std::size_t byte = 0; byte < 4; ++byte) {
      for (std::uint64_t value = 0; value < 256; ++value) {
        const std::uint64_t shifted = AppendZeros(value << (8 * byte), kBlock);
        parts_[byte][value] = static_cast<std::uint32_t>(shifted);
      }
    }
  }

  std::uint64_t Shift(std::uint64_t crc) const {
    return parts_[0][crc & 0xff] ^ parts_[1][(crc >> 8) & 0xff] ^ parts_[2][(crc >> 16) & 0xff] ^
           parts_[3][(crc >> 24) & 0xff];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> parts_;
};

__attribute__((target("sse4.2"))) std::uint64_t ThreeBlocks(std::uint64_t crc,
                                                            const std::byte* at,
                                                            const ShiftTable& table) {
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  for (std::size_t i = 0; i < kBlock; i += kWord) {
    crc = _mm_crc32_u64(crc, WordAt(at + i));
    second = _mm_crc32_u64(second, WordAt(at + kBlock + i));
    third = _mm_crc32_u64(third, WordAt(at + 2 * kBlock + i));
  }
  return table.Shift(table.Shift(crc) ^ second) ^ third;
}

__attribute__((target("sse4.2"))) std::uint64_t Rest(std::uint64_t crc,
                                                     std::span<const std::byte> data) {
  for (; data.size() >= kWord; data = data.subspan(kWord)) {
    crc = _mm_crc32_u64(crc, WordAt(data.data()));
  }
  auto narrow = static_cast<std::uint32_t>(crc);
  for (const std::byte byte : data)
    narrow = _mm_crc32_u8(narrow, std::to_integer<std::uint8_t>(byte));
  return narrow;
}

}  // namespace

bool HasCrc32c() { return __builtin_cpu_supports("sse4.2") != 0; }

std::uint32_t Crc32c(std::span<const std::byte> data) {
  static const ShiftTable kTable;
  std::uint64_t crc = 0xffffffff;
  for (; data.size() >= 3 * kBlock; data = data.subspan(3 * kBlock)) {
    crc = ThreeBlocks(crc, data.data(), kTable);
  }
  return ~static_cast<std::uint32_t>(Rest(crc, data));
}

}  // namespace sluice::bench
