#include "runtime/sim/simulator/machine.h"

#include "gtest/gtest.h"
#include "runtime/sim/facts/machine_bound.h"
#include "runtime/sim/simulator/plan_times.h"

namespace sluice::sim {
namespace {

constexpr MachinePath kFree = {.in_bytes_per_s = 30, .out_bytes_per_s = 10, .latency_s = 2};
constexpr MachinePath kShared = {
    .in_bytes_per_s = 20, .out_bytes_per_s = 25, .both_bytes_per_s = 22, .latency_s = 1};

TEST(MachineTest, PathsTogetherHaveTheSumOfTheirRates) {
  const MachinePath apart = Together({{kFree, kFree, kFree}});
  EXPECT_EQ(apart.in_bytes_per_s, 90);
  EXPECT_EQ(apart.out_bytes_per_s, 30);
  EXPECT_EQ(apart.both_bytes_per_s, 0);
  const MachinePath shared = Together({{kShared, kFree}});
  EXPECT_EQ(shared.in_bytes_per_s, 50);
  EXPECT_EQ(shared.out_bytes_per_s, 35);
  EXPECT_EQ(shared.both_bytes_per_s, 22 + 40);
  EXPECT_EQ(shared.latency_s, 2);
  MachinePath idle = kShared;
  idle.both_bytes_per_s = 1000;  // more than it can move
  EXPECT_EQ(Together({{idle, kShared}}).both_bytes_per_s, 45 + 22);
}

TEST(MachineTest, OnePathStaysAsItIs) {
  MachinePath path = kShared;
  path.both_bytes_per_s = 1000;
  path.serial = true;
  const MachinePath alone = Together({{path}});
  EXPECT_EQ(alone.both_bytes_per_s, 1000);
  EXPECT_EQ(alone.latency_s, 1);
  EXPECT_TRUE(alone.serial);
}

TEST(MachineTest, PlansReckonWithAllPaths) {
  core::PlanInput input;
  AddLinks({.tiers = {}, .links = {{{kShared, kFree}}}}, 700, &input);
  ASSERT_EQ(input.links.size(), 1u);
  EXPECT_DOUBLE_EQ(input.links[0].in_s, 14);
  EXPECT_DOUBLE_EQ(input.links[0].out_s, 20);
  EXPECT_DOUBLE_EQ(input.links[0].both_s, 700.0 / 62);
}

/// One path may bring while the other takes away, each at its whole rate.
TEST(MachineTest, BoundsAllowEachPathItsBetterDirection) {
  const MachinePath reader = {.in_bytes_per_s = 40, .out_bytes_per_s = 10, .both_bytes_per_s = 20};
  const MachinePath writer = {.in_bytes_per_s = 10, .out_bytes_per_s = 40, .both_bytes_per_s = 20};
  const Machine machine = {.tiers = {{TierKind::kHbm, 100}, {TierKind::kDram, 100}},
                           .links = {{{reader, writer}}}};
  const analysis::BoundLink bound = TimeBoundOptionsFor(machine, Schedule()).links[0];
  EXPECT_EQ(bound.in_bytes_per_s, 50);
  EXPECT_EQ(bound.out_bytes_per_s, 50);
  EXPECT_EQ(bound.both_bytes_per_s, 80);
}

}  // namespace
}  // namespace sluice::sim
