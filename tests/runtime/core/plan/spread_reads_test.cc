#include "runtime/core/plan/spread_reads.h"

#include <algorithm>
#include <cstdint>
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

TEST(SpreadReadsTest, WhatOnlyReadsMovesHardlyMoreThanBeladysOptimum) {
  // N pages are used in turn, U at once. With C frames, N (N - C) / (N - U) of them must come in an
  // iteration.
  for (const FrameIndex frames : {20u, 30u, 45u, 60u, 90u, 110u}) {
    const double least = 120.0 * (120 - frames) / (120 - 10);
    const Plan plan = MakePlan(Passes(12, 10, frames, kSlow));
    EXPECT_GE(PagesIn(plan), least - 1) << frames;
    EXPECT_LE(PagesIn(plan), least + 1) << frames;
  }
}

TEST(SpreadReadsTest, AsMuchComesForEachStepAsForAnyOther) {
  for (const std::uint32_t pages : PagesByStep(MakePlan(Passes(12, 10, 60, kSlow)))) {
    EXPECT_GE(pages, 5u);
    EXPECT_LE(pages, 6u);
  }
}

TEST(SpreadReadsTest, PlansAreSpreadWhereTheLinkBindsEvenSo) {
  int spread = 0;
  int whole = 0;
  for (int thousandths = 50; thousandths <= 400; ++thousandths) {
    const double in_s = thousandths / 1000.0;
    const Plan plan = MakePlan(Passes(12, 10, 60, {.in_s = in_s, .out_s = in_s}));
    const std::vector<std::uint32_t> pages = PagesByStep(plan);
    const auto [least, most] = std::minmax_element(pages.begin(), pages.end());
    if (*least > 0 && *most <= *least + 1) {
      ++spread;
      EXPECT_GE(PagesIn(plan) * in_s, 12.0) << in_s;
    } else {
      ++whole;
    }
  }
  EXPECT_GT(spread, 0);
  EXPECT_GT(whole, 0);
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
