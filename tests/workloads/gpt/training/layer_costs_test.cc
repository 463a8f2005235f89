#include "workloads/gpt/training/layer_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice::gpt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ScheduleAccess Access(std::uint32_t tensor, AccessMode mode) {
  return {.tensor = tensor, .range = kWholeTensor, .mode = mode, .tier = kHbm0};
}

/// One layer and two groups: bytes and seconds are powers of two, so that sums tell what is in
/// them.
Schedule TwoGroups() {
  Schedule schedule{.key = "train", .page_bytes = 4096};
  for (const char* group : {".g0", ".g1"}) {
    const bool first = std::string(group) == ".g0";
    const auto add = [&](const std::string& name, std::uint64_t bytes) {
      schedule.tensors.push_back({.name = name + group, .bytes = first ? bytes : 256 * bytes});
      return static_cast<std::uint32_t>(schedule.tensors.size() - 1);
    };
    const std::uint32_t input = add("stash.l0.input", 1), ln1 = add("stash.l0.ln1", 2);
    const std::uint32_t qkv = add("stash.l0.qkv", 4), middle = add("stash.l0.middle", 8);
    const std::uint32_t gelu = add("stash.l0.gelu", 16), output = add("stash.output", 32);
    const auto op =
        [&](const std::string& name, double seconds, std::vector<ScheduleAccess> accesses) {
          schedule.ops.push_back({.name = name + group,
                                  .seconds = first ? seconds : 32 * seconds,
                                  .accesses = std::move(accesses)});
        };
    op("l0.qkv.forward",
       1,
       {Access(input, AccessMode::kRead),
        Access(ln1, AccessMode::kOverwrite),
        Access(qkv, AccessMode::kOverwrite)});
    op("l0.attention.forward",
       2,
       {Access(qkv, AccessMode::kRead), Access(middle, AccessMode::kOverwrite)});
    op("l0.mlp.forward",
       4,
       {Access(middle, AccessMode::kRead),
        Access(gelu, AccessMode::kOverwrite),
        Access(output, AccessMode::kOverwrite)});
  }
  schedule.ops.push_back({.name = "l0.proj.backward.g0", .seconds = 1000});
  schedule.ops.push_back({.name = "l0.proj.backward.g1", .seconds = 1000});
  return schedule;
}

TEST(LayerCosts, CountWhatIsMadeAgainAndHowLongItLies) {
  const std::vector<LayerCosts> costs =
      FindLayerCosts({.layers = 1}, {.batch = 4, .group_sequences = 2}, TwoGroups());
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_EQ(costs[0].bytes, (2 + 4 + 8 + 16) * (1 + 256)) << "neither the input nor the output";
  EXPECT_THAT(costs[0].tensors, ElementsAre(1, 2, 3, 4, 7, 8, 9, 10));
  EXPECT_DOUBLE_EQ(costs[0].recompute_seconds, (1 + 2 + 2) * (1 + 32)) << "half of the mlp";
  // The first group's forward ends before the second one's begins, its backward likewise.
  EXPECT_DOUBLE_EQ(costs[0].idle_seconds, (7 * 32 + 1000) / 2.0);
}

TEST(LayerCosts, AScheduleWithoutTheOpsCostsNothing) {
  const std::vector<LayerCosts> costs = FindLayerCosts({.layers = 2}, {}, {});
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_EQ(costs[1].bytes, 0);
  EXPECT_THAT(costs[1].tensors, IsEmpty());
  EXPECT_EQ(costs[1].recompute_seconds, 0);
  EXPECT_EQ(costs[1].idle_seconds, 0);
}

}  // namespace
}  // namespace sluice::gpt
