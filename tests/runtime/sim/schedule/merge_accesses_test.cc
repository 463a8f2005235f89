#include "runtime/sim/schedule/merge_accesses.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice::sim {
namespace {

TEST(MergeAccessesTest, EveryByteOnce) {
  EXPECT_EQ(MergeAccesses({}), std::vector<FileAccess>{});
  const std::vector<FileAccess> merged = MergeAccesses(
      {{1, {50, 10}}, {0, {8, 4}}, {1, {0, 20}}, {0, {0, 8}}, {1, {10, 5}}, {1, {15, 10}}});
  EXPECT_EQ(merged, (std::vector<FileAccess>{{0, {0, 12}}, {1, {0, 25}}, {1, {50, 10}}}));
}

}  // namespace
}  // namespace sluice::sim
