#include "runtime/core/plan/spread_reads.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/core/plan/plan_cases.h"

namespace sluice::core {
namespace {

constexpr PlanLink kSlow{.in_s = 10, .out_s = 10};

/// Steps that read `pages` each, which no other step reads.
PlanInput Passes(std::uint32_t steps,
                 std::uint32_t pages,
                 FrameIndex frames,
                 const PlanLink& link) {
  PlanInput input = EvenSteps(steps, {frames}, link);
  for (std::uint32_t step = 0; step < steps; ++step) AddItem(&input, pages, {ReadAt(step)});
  return input;
}

/// Pages that come in every iteration.
std::uint32_t PagesIn(const Plan& plan) {
  std::uint32_t pages = 0;
  for (const PlannedReturn& back : plan.returns) pages += back.pages;
  return pages;
}

/// Pages that come for each step.
std::vector<std::uint32_t> PagesByStep(const Plan& plan) {
  std::vector<std::uint32_t> pages(plan.fetches.size());
  for (const PlannedReturn& back : plan.returns) pages[back.use] += back.pages;
  return pages;
}

TEST(SpreadReadsTest, SchedulesThatOnlyReadMoveHardlyMoreThanBeladysOptimum) {
  // N pages are used in turn, U at once. With C frames, N (N - C) / (N - U) of them must come in an
  // iteration.
  for (const FrameIndex frames : {20u, 30u, 45u, 60u, 90u, 110u}) {
    const double least = 120.0 * (120 - frames) / (120 - 10);
    const Plan plan = MakePlan(Passes(12, 10, frames, kSlow));
    EXPECT_GE(PagesIn(plan), least - 1) << frames;
    EXPECT_LE(PagesIn(plan), least + 1) << frames;
  }
}

TEST(SpreadReadsTest, EachStepFetchesAsMuchAsAnyOther) {
  for (const std::uint32_t pages : PagesByStep(MakePlan(Passes(12, 10, 60, kSlow)))) {
    EXPECT_GE(pages, 5u);
    EXPECT_LE(pages, 6u);
  }
}

TEST(SpreadReadsTest, APlanTakesHardlyLongerThanItMust) {
  for (int thousandths = 50; thousandths <= 400; thousandths += 10) {
    const double in_s = thousandths / 1000.0;
    const PlanInput input = Passes(12, 10, 60, {.in_s = in_s, .out_s = in_s});
    const double least = std::max(12.0, in_s * 120 * (120 - 60) / (120 - 10));
    EXPECT_LE(SecondsOfReads(input, MakePlan(input)), 1.16 * least) << in_s;
  }
}

TEST(SpreadReadsTest, PagesThatComeWhileAStepComputesTakeNoFurtherTime) {
  PlanInput input = EvenSteps(2, {2}, kTwoPerStep);
  Plan plan;
  plan.leaves.resize(2);
  plan.fetches.resize(2);
  for (std::uint32_t step = 0; step < 2; ++step) {
    const PageIndex first = AddItem(&input, 2, {ReadAt(step)});
    plan.leaves[step] = {{first, 2, 0}};
    plan.fetches[step] = {{first, 2, 0}};
  }
  EXPECT_DOUBLE_EQ(SecondsOfReads(input, plan), 4);
  input.frames[0] = 3;
  EXPECT_DOUBLE_EQ(SecondsOfReads(input, plan), 3);
  input.frames[0] = 4;
  EXPECT_DOUBLE_EQ(SecondsOfReads(input, plan), 2);
}

/// Pages in tier 0 during each step. A page is there from the step of its fetch to that of its
/// leave; one that never leaves is always there.
std::vector<std::int64_t> PagesThere(const PlanInput& input, const Plan& plan) {
  const std::size_t steps = plan.leaves.size();
  std::int64_t stay = 0;
  for (const PlanItem& item : input.items) stay += item.pages;
  std::map<PageIndex, std::size_t> leaves;
  for (std::size_t step = 0; step < steps; ++step) {
    for (const PlannedLeave& leave : plan.leaves[step]) leaves[leave.first_page] = step;
  }
  std::vector<std::int64_t> there(steps, stay - PagesIn(plan));
  for (std::size_t step = 0; step < steps; ++step) {
    for (const PlannedFetch& fetch : plan.fetches[step]) {
      const std::size_t end = (leaves.at(fetch.first_page) + steps - step) % steps;
      for (std::size_t at = 0; at <= end; ++at) there[(step + at) % steps] += fetch.pages;
    }
  }
  return there;
}

/// A pass over layers between an embedding and a head, which are small and compute for a shorter
/// time.
PlanInput PassOverLayers(FrameIndex frames, double layer_seconds) {
  PlanInput input = EvenSteps(16, {frames}, {.in_s = 0.0011, .out_s = 0.0011});
  for (std::uint32_t step = 0; step < 16; ++step) {
    const bool layer = step > 0 && step < 15;
    AddItem(&input, layer ? 98 : 32, {ReadAt(step)});
    input.step_seconds[step] = layer ? layer_seconds : layer_seconds / 3;
  }
  return input;
}

TEST(SpreadReadsTest, NoMorePagesAreThereThanFrames) {
  const PlanInput input = PassOverLayers(1077, 0.02);
  const Plan plan = MakePlan(input);
  EXPECT_GT(PagesIn(plan), 0u);
  for (const std::int64_t pages : PagesThere(input, plan)) EXPECT_LE(pages, 1077);
}

TEST(SpreadReadsTest, APassOfManyTokensKeepsThePagesOfTheShortOnesAfterIt) {
  // A prompt computes for longer than all weights take to come, and the tokens after it do not.
  for (const FrameIndex frames : {718u, 1077u}) {
    const double least = 1436.0 * (1436 - frames) / (1436 - 98);
    for (const double layer_seconds : {0.1, 0.15, 0.2, 0.6}) {
      PlanInput input = PassOverLayers(frames, layer_seconds);
      input.step_seconds[0] = layer_seconds / 25;  // rows of the embedding are only copied
      EXPECT_LE(PagesIn(MakePlan(input)), 1.1 * least) << frames << ", " << layer_seconds;
    }
  }
}

TEST(SpreadReadsTest, FramesAreLeftForWhatComesWhileAStepComputes) {
  // Two pages come in a step; all steps' own pages are away, but one page of each.
  const std::optional<PlanInput> spread = SpreadReads(Passes(12, 10, 60, kTwoPerStep));
  ASSERT_TRUE(spread.has_value());
  std::uint32_t coming = 0;
  for (const PlanItem& item : spread->items) coming += item.pages;
  EXPECT_EQ(120 - coming + spread->frames[0], 60u);
  EXPECT_GE(spread->frames[0], coming / 12 + 2);
}

TEST(SpreadReadsTest, FramesAreLeftForPagesUnderWay) {
  PlanInput input = Passes(12, 10, 60, kSlow);
  const std::optional<PlanInput> without = SpreadReads(input);
  input.pages_under_way = 3;
  const std::optional<PlanInput> with = SpreadReads(input);
  ASSERT_TRUE(without.has_value() && with.has_value());
  EXPECT_GE(with->frames[0], without->frames[0] + 3);
  EXPECT_LE(with->frames[0], without->frames[0] + 4) << "each step moves up to a page more, too";
}

TEST(SpreadReadsTest, StepsOfSeveralSizesKeepMoreOfTheLargeOnes) {
  PlanInput input = EvenSteps(4, {50}, kSlow);
  for (std::uint32_t step = 0; step < 4; ++step)
    AddItem(&input, step == 1 ? 40 : 10, {ReadAt(step)});
  const std::vector<std::uint32_t> pages = PagesByStep(MakePlan(input));
  EXPECT_LE(pages[1], 15u);
}

TEST(SpreadReadsTest, OtherSchedulesAreLeftAsTheyAre) {
  const PlanInput passes = Passes(12, 10, 60, kSlow);
  EXPECT_TRUE(SpreadReads(passes).has_value());
  EXPECT_FALSE(SpreadReads(Passes(12, 10, 120, kSlow)).has_value()) << "all fits";
  EXPECT_FALSE(SpreadReads(Passes(12, 10, 9, kSlow)).has_value()) << "a step does not fit";
  PlanInput writes = passes;
  writes.items[3].uses[0].mode = PageMode::kWrite;
  EXPECT_FALSE(SpreadReads(writes).has_value());
  PlanInput dies = passes;
  dies.items[3].uses[0].dies = true;
  EXPECT_FALSE(SpreadReads(dies).has_value());
  PlanInput beside = passes;
  beside.step_ends[3] = 5;
  EXPECT_FALSE(SpreadReads(beside).has_value()) << "steps run beside each other";
  PlanInput tiers = passes;
  tiers.links.push_back(kSlow);
  tiers.frames.push_back(1000);
  EXPECT_FALSE(SpreadReads(tiers).has_value()) << "several links";
}

}  // namespace
}  // namespace sluice::core
