#include "numa/memory_sum.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::numa {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using ::testing::HasSubstr;

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

TEST(MemorySumTest, AddsAndNamesItsTermsTheLargestFirst) {
  MemorySum sum = FramesAndTables();
  EXPECT_EQ(sum.bytes(), 13 * kSumMiB);
  EXPECT_EQ(sum.Describe(), "10 MiB for frames, 3 MiB for tables");
  sum.Add(FramesAndTables());
  EXPECT_EQ(sum.bytes(), 26 * kSumMiB);
}

TEST(MemorySumTest, WhatFitsExactlyFits) {
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

}  // namespace
}  // namespace sluice::numa
