// The order of a step: groups that become ready in the order of the sweep find the pages that the
// step before has left in dram.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::RuntimeFixture;

constexpr int kSteps = 8;

/// Bytes read from nvme by steps with three pages of parameters and states for each frame of dram.
/// `follows`: groups are ready in the order of the sweep, not always from the first to the last.
std::uint64_t ReadBytes(bool follows) {
  RuntimeFixture runtime;
  runtime.Start();
  PagedModel model(runtime, {.groups = {{8192}, {8192}, {8192}, {8192}}});
  OffloadedOptimizer& optimizer = model.optimizer();
  for (int step = 1; step <= kSteps; ++step) {
    for (std::size_t i = 0; i < model.groups(); ++i) {
      const bool from_last = follows && optimizer.backwards();
      EXPECT_THAT(optimizer.GradientReady(model.group(from_last ? model.groups() - 1 - i : i)),
                  IsOk());
    }
    EXPECT_THAT(optimizer.Step().value().Wait(), IsOk());
    model.ReferenceStep(step);
  }
  EXPECT_EQ(model.Paged(), model.Reference());
  return runtime->GetStats().links["dram-nvme"].in.bytes;
}

TEST(OptimizerOrderTest, EveryOtherStepGoesBackwards) {
  RuntimeFixture runtime;
  runtime.Start();
  PagedModel alternate(runtime, {.groups = {{10}}});
  PagedModel forward(
      runtime, {.groups = {{10}}, .optimizer = {.order = SweepOrder::kForward, .lane = "forward"}});
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(alternate.optimizer().backwards(), step % 2 != 0);
    EXPECT_FALSE(forward.optimizer().backwards());
    ASSERT_THAT(alternate.Step(), IsOk());
    ASSERT_THAT(forward.Step(), IsOk());
  }
}

TEST(OptimizerOrderTest, GroupsInTheOrderOfTheSweepReadLess) {
  const std::uint64_t forwards = ReadBytes(false);
  const std::uint64_t both_ways = ReadBytes(true);
  EXPECT_LT(both_ways, forwards - forwards / 8);
}

}  // namespace
}  // namespace sluice::optim
