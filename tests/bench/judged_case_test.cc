#include "bench/store/judged_case.h"

#include "gtest/gtest.h"

namespace sluice::bench {
namespace {

TEST(JudgedCaseTest, EveryRoundIsJudgedByItsOwnCeiling) {
  // The disk halves its speed on the way: the ratios do not notice.
  const std::vector<Round> rounds = {{4, 3.6, 4}, {2, 1.8, 2}, {1, 1.2, 3}};
  const Row row = MakeJudgedRow("read/seq/2MiB/io_uring", rounds);
  EXPECT_EQ(row.name, "read/seq/2MiB/io_uring");
  EXPECT_EQ(row.unit, "GiB/s");
  EXPECT_EQ(row.reps, 3);
  EXPECT_DOUBLE_EQ(row.value, 1.8);
  EXPECT_DOUBLE_EQ(*row.ceiling, 2);
  EXPECT_DOUBLE_EQ(*row.ratio, 0.9);
  EXPECT_DOUBLE_EQ(*row.control, 1);
  EXPECT_DOUBLE_EQ(*row.control_low, 1);
}

TEST(JudgedCaseTest, ControlLowIsTheLowerQuartileOfSecondOverFirst) {
  const std::vector<Round> rounds = {
      {1, 1, 0.8}, {1, 1, 0.9}, {1, 1, 1.0}, {1, 1, 1.1}, {2, 1, 2.4}};
  EXPECT_DOUBLE_EQ(*MakeJudgedRow("x", rounds).control_low, 0.9);
}

TEST(JudgedCaseTest, ARoundWithoutACeilingHasNoRatio) {
  EXPECT_EQ((Round{.ours = 1}).Ratio(), 0);
  EXPECT_EQ((Round{.ours = 1}).Control(), 0);
}

Row JudgedRow(const std::string& name, double ratio) {
  return {.name = name,
          .unit = "GiB/s",
          .huge_pages = true,
          .ceiling = 3,
          .ceiling_of = "fio",
          .ratio = ratio,
          .control_low = 0.96,
          .cpu_ratio = ratio};
}

TEST(VerdictTest, TheMeanIsGeometric) {
  const Row mean = MakeMeanRow({JudgedRow("a", 0.5), JudgedRow("b", 2)});
  EXPECT_EQ(mean.name, "all/geomean");
  EXPECT_DOUBLE_EQ(*mean.ratio, 1);
  EXPECT_DOUBLE_EQ(mean.value, 1);
  EXPECT_DOUBLE_EQ(*mean.ceiling, 1);
  EXPECT_DOUBLE_EQ(*mean.control_low, 0.96);
  EXPECT_DOUBLE_EQ(*mean.cpu_ratio, 1);
  EXPECT_EQ(mean.reps, 2);
  EXPECT_TRUE(mean.huge_pages);
}

}  // namespace
}  // namespace sluice::bench
