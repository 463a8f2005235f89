#include "numa/memory_sum.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::numa {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;

constexpr std::uint64_t kSumMiB = 1 << 20;

MemorySum FramesAndTables() {
  MemorySum sum;
  sum.Add({"tables", 3 * kSumMiB});
  sum.Add({"nothing", 0});
  sum.Add({"frames", 10 * kSumMiB, MemoryKind::kFrames});
  return sum;
}

MemoryLimits Available(std::uint64_t bytes) {
  MemoryLimits limits;
  limits.available_bytes = bytes;
  limits.available_source = "/g/memory.max";
  return limits;
}

TEST(MemorySumTest, AddsWhatIsMemory) {
  MemorySum sum = FramesAndTables();
  EXPECT_EQ(sum.bytes(), 13 * kSumMiB);
  sum.Add(FramesAndTables());
  EXPECT_EQ(sum.bytes(), 26 * kSumMiB);
  sum.Add({"stacks", 8 * kSumMiB, MemoryKind::kStacks});
  sum.Add({"addresses", 8 * kSumMiB, MemoryKind::kAddresses});
  EXPECT_EQ(sum.bytes(), 26 * kSumMiB);
  sum.Add({"child", 4 * kSumMiB, MemoryKind::kChild});
  EXPECT_EQ(sum.bytes(), 30 * kSumMiB);
}

TEST(MemorySumTest, AnExactFitIsAccepted) {
  EXPECT_THAT(CheckFits(FramesAndTables(), Available(13 * kSumMiB), "it", "less"), IsOk());
}

TEST(MemorySumTest, OneByteMoreIsRefusedWithTheSumTheLimitAndTheFix) {
  EXPECT_EQ(
      CheckFits(FramesAndTables(), Available(13 * kSumMiB - 1), "it", "take less").message(),
      "it takes 13 MiB of memory (10 MiB for frames, 3 MiB for tables), and 13 MiB are available "
      "(/g/memory.max); take less, or raise that limit");
}

TEST(MemorySumTest, TheLimitOfDataCountsNoFrames) {
  MemoryLimits limits = Available(100 * kSumMiB);
  limits.data_bytes = 3 * kSumMiB;
  EXPECT_THAT(CheckFits(FramesAndTables(), limits, "it", "less"), IsOk());
  limits.data_bytes = 2 * kSumMiB;
  EXPECT_THAT(CheckFits(FramesAndTables(), limits, "it", "less"),
              IsStatus(absl::StatusCode::kResourceExhausted, "2 MiB are available (RLIMIT_DATA"));
}

/// The sum with 5 MiB of stacks, 7 MiB of addresses and 50 MiB of a child, too.
MemorySum AllKinds() {
  MemorySum sum = FramesAndTables();
  sum.Add({"stacks", 5 * kSumMiB, MemoryKind::kStacks});
  sum.Add({"addresses", 7 * kSumMiB, MemoryKind::kAddresses});
  sum.Add({"a child", 50 * kSumMiB, MemoryKind::kChild});
  return sum;
}

TEST(MemorySumTest, TheLimitOfDataCountsStacks) {
  MemoryLimits limits = Available(100 * kSumMiB);
  limits.data_bytes = 8 * kSumMiB;
  EXPECT_THAT(CheckFits(AllKinds(), limits, "it", "less"), IsOk());
  limits.data_bytes = 7 * kSumMiB;
  EXPECT_EQ(CheckFits(AllKinds(), limits, "it", "take less").message(),
            "it takes 8 MiB of data (5 MiB for stacks, 3 MiB for tables), and 7 MiB are available "
            "(RLIMIT_DATA (ulimit -d)); take less, or raise that limit");
}

TEST(MemorySumTest, TheLimitOfAddressesCountsAllOfThisProcess) {
  MemoryLimits limits = Available(100 * kSumMiB);
  limits.address_bytes = 25 * kSumMiB;
  EXPECT_THAT(CheckFits(AllKinds(), limits, "it", "less"), IsOk());
  limits.address_bytes = 24 * kSumMiB;
  EXPECT_EQ(CheckFits(AllKinds(), limits, "it", "take less").message(),
            "it takes 25 MiB of addresses (10 MiB for frames, 7 MiB for addresses, 5 MiB for "
            "stacks, 3 MiB for tables), and 24 MiB are available (RLIMIT_AS (ulimit -v)); take "
            "less, or raise that limit");
}

TEST(MemorySumTest, AChildHasALimitOfAddressesOfItsOwn) {
  MemoryLimits limits;
  limits.system_available_bytes = 100 * kSumMiB;
  limits.address_bytes = 25 * kSumMiB;
  ChooseTightest(&limits);
  ASSERT_EQ(limits.available_bytes, 25 * kSumMiB);
  EXPECT_THAT(CheckFits(AllKinds(), limits, "it", "less"), IsOk());
  limits.system_available_bytes = 62 * kSumMiB;
  EXPECT_THAT(CheckFits(AllKinds(), limits, "it", "less"),
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "62 MiB are available (MemAvailable of /proc/meminfo)"));
}

}  // namespace
}  // namespace sluice::numa
