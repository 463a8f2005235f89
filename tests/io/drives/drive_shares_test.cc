#include "io/drives/drive_shares.h"

#include <fcntl.h>
#include <sys/file.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file/spill_directory.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using ::testing::ElementsAre;

std::vector<SlotIndex> Divide(SlotIndex slots, const std::vector<double>& rates) {
  return DriveShares::DivideSlots(slots, rates);
}

TEST(DriveSharesTest, SlotsAreDividedInProportionToTheRates) {
  EXPECT_THAT(Divide(1000, {1e9}), ElementsAre(1000));
  EXPECT_THAT(Divide(1000, {3e9, 1e9}), ElementsAre(750, 250));
  EXPECT_THAT(Divide(1000, {1e9, 2e9, 5e9}), ElementsAre(125, 250, 625));
}

TEST(DriveSharesTest, EachHasAtLeastATenthOfAnEvenPart) {
  EXPECT_THAT(Divide(1000, {1e9, 1.0}), ElementsAre(950, 50));
  // The other drives give up slots for the slow ones, in proportion to their rates.
  EXPECT_THAT(Divide(900, {1.0, 3e9, 1.0, 1e9}), ElementsAre(22, 642, 22, 214));
}

TEST(DriveSharesTest, FewSlotsAreOneEach) {
  EXPECT_THAT(Divide(2, {5.0, 1.0, 1.0}), ElementsAre(1, 1, 1));
  EXPECT_THAT(Divide(5, {1e9, 1.0, 1.0}), ElementsAre(3, 1, 1));
}

/// A limit of file sizes stands for drives that are smaller than all drives are to hold together.
TEST(DriveSharesTest, ADriveIsMeasuredWithinAnEvenShare) {
  const testing::TempDirectory first, second, third;
  const auto opened = OpenSpillDirectories({first.path(), second.path(), third.path()});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const testing::FileSizeLimit limit(6 << 20);
  const PageStoreOptions store{.page_bytes = 65536, .slots = 256};
  const auto rates = DriveShares::MeasureRates(store, *opened);
  EXPECT_TRUE(rates.ok()) << rates.status();
}

/// Ranks that start together on one drive must not halve each other's rates.
TEST(DriveSharesTest, ADriveIsMeasuredByOneProcessAtATime) {
  const testing::TempDirectory directory;
  const auto opened = OpenSpillDirectories({directory.path()});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const FileDescriptor other(open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::atomic<bool> done = false;
  std::thread measures([&] {
    EXPECT_TRUE(DriveShares::MeasureRates({.page_bytes = 65536, .slots = 256}, *opened).ok());
    done = true;
  });
  bool was_locked = false;
  while (!done && !was_locked) {
    was_locked = flock(other.get(), LOCK_SH | LOCK_NB) != 0;
    flock(other.get(), LOCK_UN);
  }
  measures.join();
  EXPECT_TRUE(was_locked);
  EXPECT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0) << "the lock goes with the measurement";
}

TEST(DriveSharesTest, TogetherTheyAreAllSlots) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<double> rates(1 + random() % 8);
    for (double& rate : rates) rate = std::exp2(static_cast<double>(random() % 300) / 10);
    const auto slots = static_cast<SlotIndex>(rates.size() + random() % 5'000'000);
    const std::vector<SlotIndex> shares = DriveShares::DivideSlots(slots, rates);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}), slots);
    for (const SlotIndex share : shares) {
      EXPECT_GE(share, 1u);
      EXPECT_GE(share, slots / (10 * rates.size()));
    }
  }
}

TEST(DriveSharesTest, ADriveThatWasIdleDoesNotCatchUp) {
  DriveShares shares(2, std::uint64_t{1} << 20, std::vector<double>{1e9, 1e9});
  const double first = shares.turn(1);
  shares.TakeTurn(1, {});
  const double seconds = shares.turn(1) - first;
  for (int i = 0; i < 100; ++i) shares.TakeTurn(1, {});
  EXPECT_NEAR(shares.turn(1) - shares.turn(0), seconds, seconds / 100);
}

}  // namespace
}  // namespace sluice::io
