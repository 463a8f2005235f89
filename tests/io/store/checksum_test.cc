#include "io/store/checksum.h"

#include <xxhash.h>

#include <array>
#include <cstring>
#include <set>

#include "gtest/gtest.h"
#include "io/store/xxh3.h"
#include "tests/support/store/page_buffer.h"

namespace sluice::io {
namespace {

TEST(ChecksumTest, DependsOnEveryPartOfTheIdentity) {
  testing::PageBuffer page(4096);
  page.Fill(1);
  std::set<std::uint64_t> sums;
  for (const PageIdentity& identity :
       {PageIdentity{1, 2, 3}, {2, 2, 3}, {1, 3, 3}, {1, 2, 4}, {3, 2, 1}, {2, 1, 3}, {0, 0, 0}}) {
    sums.insert(PageChecksum(identity, page.span()));
  }
  EXPECT_EQ(sums.size(), 7U);
}

TEST(ChecksumTest, DependsOnEveryByte) {
  testing::PageBuffer page(4096);
  page.Fill(1);
  const std::uint64_t whole = PageChecksum({}, page.span());
  for (std::byte& byte : page.span()) {
    byte ^= std::byte{1};
    EXPECT_NE(PageChecksum({}, page.span()), whole);
    byte ^= std::byte{1};
  }
}

TEST(ChecksumTest, IsXxh3UnderTheSeedOfTheIdentity) {
  testing::PageBuffer page(65536);
  page.Fill(1);
  const std::array<std::uint64_t, 3> words = {7, 8, 9};
  const std::uint64_t seed = XXH3_64bits(words.data(), sizeof(words));
  EXPECT_EQ(PageChecksum({7, 8, 9}, page.span()),
            XXH3_64bits_withSeed(page.span().data(), page.span().size(), seed));
}

TEST(ChecksumTest, IsTheSameWithEveryInstructionSet) {
  testing::PageBuffer page(65536);
  page.Fill(1);
  for (const std::size_t bytes :
       {std::size_t{24}, std::size_t{4096}, std::size_t{16384}, std::size_t{65536}}) {
    const std::uint64_t sum = XXH3_64bits_withSeed(page.span().data(), bytes, 5);
    EXPECT_EQ(Xxh3(page.span().data(), bytes, 5), sum);
    EXPECT_EQ(Xxh3OfLibrary(page.span().data(), bytes, 5), sum);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
      EXPECT_EQ(Xxh3Avx2(page.span().data(), bytes, 5), sum);
    }
    if (__builtin_cpu_supports("avx512f")) {
      EXPECT_EQ(Xxh3Avx512(page.span().data(), bytes, 5), sum);
    }
#endif
  }
}

}  // namespace
}  // namespace sluice::io
