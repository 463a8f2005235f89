#include "runtime/sim/facts/reuse_distance.h"

#include "gtest/gtest.h"

namespace sluice::sim {
namespace {

TEST(ReuseDistanceTest, QuantilesAreWeightedWithBytes) {
  const std::vector<Reuse> reuses = {{1, 10}, {5, 80}, {7, 10}};
  EXPECT_EQ(ReuseQuantile(reuses, 0), 1u);
  EXPECT_EQ(ReuseQuantile(reuses, 0.1), 1u);
  EXPECT_EQ(ReuseQuantile(reuses, 0.11), 5u);
  EXPECT_EQ(ReuseQuantile(reuses, 0.9), 5u);
  EXPECT_EQ(ReuseQuantile(reuses, 1), 7u);
  EXPECT_EQ(ReuseQuantile({}, 0.5), 0u);
}

}  // namespace
}  // namespace sluice::sim
