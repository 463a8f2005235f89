#include "runtime/device/page_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sluice::device {
namespace {

constexpr std::size_t kMargin = 64;

std::vector<std::byte> RandomBytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

/// Copies `size` bytes between places that are `to` and `from` off a multiple of 64.
void ExpectCopied(std::size_t size, std::size_t to, std::size_t from) {
  SCOPED_TRACE(::testing::Message() << size << " bytes, " << from << " to " << to);
  std::vector<std::byte> source = RandomBytes(size + 3 * kMargin, 1);
  std::vector<std::byte> target = RandomBytes(size + 3 * kMargin, 2);
  const auto at = [](std::vector<std::byte>& bytes, std::size_t offset) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    return kMargin - address % kMargin + offset;
  };
  const auto begin = static_cast<std::ptrdiff_t>(at(target, to));
  std::vector<std::byte> expected = target;
  const std::span<std::byte> read(source.data() + at(source, from), size);
  std::copy(read.begin(), read.end(), expected.begin() + begin);
  CopyPage({target.data() + begin, size}, read);
  EXPECT_EQ(target, expected);
}

TEST(CopyPageTest, EveryByteArrivesAndNoneBeside) {
  for (const std::size_t size : {0, 1, 4096, 16383, 16384, 16385, 32768, 65536, 100000, 524288}) {
    for (const std::size_t to : {0, 16, 1, 8}) {
      for (const std::size_t from : {0, 16, 1}) ExpectCopied(size, to, from);
    }
  }
}

}  // namespace
}  // namespace sluice::device
