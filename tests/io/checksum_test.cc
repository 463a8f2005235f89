#include "io/checksum.h"

#include <xxhash.h>

#include <array>
#include <cstring>
#include <set>

#include "gtest/gtest.h"
#include "tests/support/page_buffer.h"

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

}  // namespace
}  // namespace sluice::io
