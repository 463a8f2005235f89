#include "numa/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

#include "gtest/gtest.h"
#include "numa/address_range.h"

namespace sluice::numa {
namespace {

/// Anonymous shared memory in a 2 MiB-aligned range.
class HugePagesTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 3 * kHugePageBytes + 8192;

  void SetUp() override {
    auto range = AddressRange::Reserve(kBytes);
    ASSERT_TRUE(range.ok()) << range.status();
    range_ = *std::move(range);
    ASSERT_NE(mmap(range_->base(),
                   kBytes,
                   PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
                   -1,
                   0),
              MAP_FAILED);
  }
  std::span<std::byte> memory() const { return {range_->base(), kBytes}; }

  int ResidentPages() const {
    std::vector<unsigned char> resident(kBytes / 4096);
    EXPECT_EQ(mincore(range_->base(), kBytes, resident.data()), 0);
    int count = 0;
    for (const unsigned char page : resident) count += page & 1;
    return count;
  }

  std::unique_ptr<AddressRange> range_;
};

TEST_F(HugePagesTest, PopulatesEveryPageTheTailIncluded) {
  for (const bool huge : {false, true}) {
    const auto reason = PopulateMemory(memory(), {.huge_pages = huge, .threads = 3});
    ASSERT_TRUE(reason.ok()) << reason.status();
    EXPECT_EQ(ResidentPages(), static_cast<int>(kBytes / 4096));
    EXPECT_EQ(memory().back(), std::byte{0});
  }
}

TEST_F(HugePagesTest, CollapsesWhatIsWhole) {
  const auto reason = PopulateMemory(memory(), {.huge_pages = true, .threads = 2});
  ASSERT_TRUE(reason.ok()) << reason.status();
  if (!reason->empty()) GTEST_SKIP() << *reason;
  const auto huge = HugeMappedBytes(memory());
  ASSERT_TRUE(huge.ok()) << huge.status();
  EXPECT_EQ(*huge, 3 * kHugePageBytes);
}

TEST_F(HugePagesTest, SaysHowManyUnitsTheKernelRefused) {
  // Memory that may never be huge: the collapse is refused, the pages are there all the same.
  if (madvise(range_->base(), kBytes, MADV_NOHUGEPAGE) != 0) {
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  }
  const auto reason = PopulateMemory(memory(), {.huge_pages = true, .threads = 2});
  ASSERT_TRUE(reason.ok()) << reason.status();
  EXPECT_EQ(*reason, "MADV_COLLAPSE refused for 3 of 3 units of 2 MiB: EINVAL");
  EXPECT_EQ(ResidentPages(), static_cast<int>(kBytes / 4096));
  EXPECT_EQ(*HugeMappedBytes(memory()), 0u);
}

TEST_F(HugePagesTest, ReportsMemoryThatCannotBeWritten) {
  ASSERT_EQ(mprotect(range_->base(), kBytes, PROT_READ), 0);
  EXPECT_FALSE(PopulateMemory(memory(), {.huge_pages = false, .threads = 1}).ok());
}

}  // namespace
}  // namespace sluice::numa
