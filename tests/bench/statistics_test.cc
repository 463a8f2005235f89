#include "bench/store/statistics.h"

#include "gtest/gtest.h"

namespace sluice::bench {
namespace {

TEST(StatisticsTest, QuantilesAreInterpolated) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(Median(values), 2.5);
  EXPECT_DOUBLE_EQ(LowerQuartile(values), 1.75);
  EXPECT_DOUBLE_EQ(Quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(Median({7}), 7);
}

TEST(StatisticsTest, SpreadIsTheRangeOverTheMedian) {
  EXPECT_DOUBLE_EQ(Spread({2, 4, 3}), 2.0 / 3);
  EXPECT_DOUBLE_EQ(Spread({5}), 0);
}

TEST(StatisticsTest, GeometricMeanWeighsRatiosEvenly) {
  EXPECT_DOUBLE_EQ(GeometricMean({0.5, 2}), 1);
  EXPECT_DOUBLE_EQ(GeometricMean({8, 1, 1}), 2);
}

TEST(StatisticsTest, NothingIsZero) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Spread({}), 0);
  EXPECT_EQ(GeometricMean({}), 0);
}

}  // namespace
}  // namespace sluice::bench
