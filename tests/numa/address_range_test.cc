#include "numa/address_range.h"

#include <cstdint>
#include <memory>

#include "gtest/gtest.h"
#include "numa/arena.h"
#include "tests/support/memory_probe.h"

namespace sluice::numa {
namespace {

constexpr std::uint64_t kHuge = 2ull << 20;

TEST(AddressRangeTest, IsAlignedToHugePagesAndInaccessible) {
  for (int i = 0; i < 3; ++i) {
    auto range = AddressRange::Reserve(3 * kHuge + 4096);
    ASSERT_TRUE(range.ok()) << range.status();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*range)->base()) % kHuge, 0u);
    EXPECT_EQ((*range)->bytes(), 3 * kHuge + 4096);
    EXPECT_FALSE(testing::IsReadable((*range)->base()));
    EXPECT_FALSE(testing::IsReadable((*range)->base() + (*range)->bytes() - 1));
  }
}

TEST(AddressRangeTest, RoundsUpToSmallPages) {
  auto range = AddressRange::Reserve(1);
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ((*range)->bytes(), 4096u);
}

TEST(AddressRangeTest, RefusesNothingAndTooMuch) {
  EXPECT_EQ(AddressRange::Reserve(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AddressRange::Reserve(1ull << 60).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(AddressRange::Reserve(UINT64_MAX).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(AddressRangeTest, UnmapDropsOnlyThePartNamed) {
  auto arena = Arena::Create({.name = "range", .page_bytes = 4096, .frames = 2});
  ASSERT_TRUE(arena.ok()) << arena.status();
  auto range = AddressRange::Reserve(3 * 4096);
  ASSERT_TRUE(range.ok()) << range.status();
  std::byte* base = (*range)->base();
  ASSERT_TRUE((*arena)->MapAt(0, base).ok());
  ASSERT_TRUE((*arena)->MapAt(1, base + 4096).ok());
  ASSERT_TRUE((*range)->Unmap(0, 4096).ok());
  EXPECT_FALSE(testing::IsReadable(base));
  EXPECT_TRUE(testing::IsReadable(base + 4096));
  EXPECT_FALSE(testing::IsReadable(base + 8192));
}

}  // namespace
}  // namespace sluice::numa
