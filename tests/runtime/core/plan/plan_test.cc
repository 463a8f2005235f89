#include "runtime/core/plan/plan.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/core/plan/plan_cases.h"

namespace sluice::core {
namespace {

using Leaves = std::vector<PlannedLeave>;
using Fetches = std::vector<PlannedFetch>;

/// One list of a plan, with the step that each entry is listed with.
template <typename Entry>
struct Listed {
  std::uint32_t step = 0;
  Entry entry;
};
template <typename Entry>
std::vector<Listed<Entry>> ListedOf(const std::vector<std::vector<Entry>>& steps, TierIndex tier) {
  std::vector<Listed<Entry>> all;
  for (std::uint32_t step = 0; step < steps.size(); ++step) {
    for (const Entry& entry : steps[step]) {
      if (entry.tier == tier) all.push_back({step, entry});
    }
  }
  return all;
}
std::vector<Listed<PlannedLeave>> LeavesOf(const Plan& plan, TierIndex tier = 0) {
  return ListedOf(plan.leaves, tier);
}
std::vector<Listed<PlannedFetch>> FetchesOf(const Plan& plan, TierIndex tier = 0) {
  return ListedOf(plan.fetches, tier);
}

TEST(PlanTest, APlanOfNothingIsEmpty) {
  const Plan plan = MakePlan(PlanInput{});
  EXPECT_TRUE(plan.leaves.empty());
  EXPECT_TRUE(plan.fetches.empty());
}

/// Gives up the `count`-th time that it is asked.
struct StopAfter {
  std::uint64_t* asked;
  std::uint64_t count = UINT64_MAX;
  bool operator()() const { return ++*asked >= count; }
};

TEST(PlanTest, MayBeStoppedAtAnyTime) {
  PlanInput input = EvenSteps(40, {6, 8});
  for (std::uint32_t step = 0; step < 40; ++step) {
    AddItem(&input, 3, {WriteAt(step), ReadAt((step + 7) % 40)});
    std::sort(input.items.back().uses.begin(),
              input.items.back().uses.end(),
              [](const PlanUse& a, const PlanUse& b) { return a.step < b.step; });
  }
  std::uint64_t asked = 0;
  const auto plan = TryMakePlan(input, StopAfter{&asked});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->leaves, MakePlan(input).leaves);
  EXPECT_GT(asked, 2 * 2 * input.step_seconds.size()) << "each tier asks twice for every step";
  const std::uint64_t all = asked;
  for (std::uint64_t count = 1; count <= all; count += 1 + count / 8) {
    asked = 0;
    EXPECT_FALSE(TryMakePlan(input, StopAfter{&asked, count}).has_value());
    EXPECT_LT(asked, count + 30) << "the rest is not gone through";
  }
}

TEST(PlanTest, NothingLeavesWhenAllFits) {
  PlanInput input = EvenSteps(8, {5});
  AddItem(&input, 2, {WriteAt(0), ReadAt(4)});
  AddItem(&input, 3, {ReadAt(2), WriteAt(6)});
  const Plan plan = MakePlan(input);
  ASSERT_EQ(plan.leaves.size(), 8u);
  ASSERT_EQ(plan.fetches.size(), 8u);
  EXPECT_TRUE(LeavesOf(plan).empty());
  EXPECT_TRUE(FetchesOf(plan).empty());
}

TEST(PlanTest, FurthestNextUseLeaves) {
  PlanInput input = EvenSteps(6, {2});
  const PageIndex a = AddItem(&input, 1, {ReadAt(0)});
  AddItem(&input, 1, {ReadAt(1), ReadAt(3)});
  const PageIndex c = AddItem(&input, 1, {ReadAt(2), ReadAt(4)});
  const Plan plan = MakePlan(input);
  // Page c is away from step 4 on: its next use, in step 2, comes after those of a and b. Page a is
  // away from step 0 on: from step 1 on its next use is the furthest. Page b never leaves.
  EXPECT_EQ(LeavesOf(plan).size(), 2u);
  EXPECT_EQ(plan.leaves[0], (Leaves{{a, 1, 0}}));
  EXPECT_EQ(plan.leaves[4], (Leaves{{c, 1, 0}}));
  EXPECT_EQ(FetchesOf(plan).size(), 2u);
  EXPECT_EQ(plan.fetches[5], (Fetches{{a, 1, 0, 1}}));
  EXPECT_EQ(plan.fetches[1], (Fetches{{c, 1, 0, 1}}));
}

TEST(PlanTest, OnlyAsManyPagesLeaveAsHaveTo) {
  PlanInput input = EvenSteps(10, {6});
  const PageIndex a = AddItem(&input, 4, {ReadAt(0)});
  AddTemporary(&input, 5, 3, 5);
  const Plan plan = MakePlan(input);
  EXPECT_EQ(LeavesOf(plan).size(), 1u);
  EXPECT_EQ(plan.leaves[0], (Leaves{{a + 1, 3, 0}}));
}

TEST(PlanTest, DeadAndOverwrittenContentNeverMoves) {
  PlanInput input = EvenSteps(6, {1});
  AddItem(&input, 1, {OverwriteAt(0), ReadAt(1)});    // overwritten: dead from 2 to 0
  AddItem(&input, 1, {WriteAt(2), Last(ReadAt(3))});  // dies: dead from 4 to 2
  AddItem(&input, 1, {OverwriteAt(4), Last(WriteAt(5))});
  const Plan plan = MakePlan(input);
  EXPECT_TRUE(LeavesOf(plan).empty());
  EXPECT_TRUE(FetchesOf(plan).empty());
}

TEST(PlanTest, PagesOnlyReadAfterTheirWriteAreWrittenEarlyAndLeaveForNothing) {
  // A page takes two steps out: written only when it leaves, it would not be out in step 4.
  PlanInput input = EvenSteps(8, {1}, {.in_s = 0.5, .out_s = 2});
  const PageIndex a = AddItem(&input, 1, {WriteAt(0), ReadAt(2), ReadAt(6)});
  const PageIndex b = AddTemporary(&input, 1, 4, 4);
  const Plan plan = MakePlan(input);
  EXPECT_EQ(plan.leaves[0], (Leaves{{a, 1, 0, true}}));
  EXPECT_EQ(plan.leaves[2], (Leaves{{a, 1, 0}}));
  EXPECT_EQ(LeavesOf(plan).size(), 2u) << "page " << b << " is dead when it is over";
  EXPECT_EQ(plan.fetches[5], (Fetches{{a, 1, 0, 1}}));
  EXPECT_EQ(FetchesOf(plan).size(), 1u);
}

TEST(PlanTest, PagesThatLeaveTwiceAreWrittenOnce) {
  PlanInput input = EvenSteps(12, {2});
  const PageIndex a = AddItem(&input, 2, {WriteAt(0), ReadAt(5), ReadAt(10)});
  AddTemporary(&input, 2, 2, 3);
  AddTemporary(&input, 2, 7, 8);
  const Plan plan = MakePlan(input);
  // No leave has `stays`. The first leave, right after the write, writes the pages, so that the
  // second one only drops them.
  EXPECT_EQ(plan.leaves[0], (Leaves{{a, 2, 0}}));
  EXPECT_EQ(plan.leaves[5], (Leaves{{a, 2, 0}}));
  EXPECT_EQ(LeavesOf(plan).size(), 2u);
  EXPECT_EQ(FetchesOf(plan).size(), 2u);
}

TEST(PlanTest, FetchesAreListedEarlyEnoughForTheirLinkTime) {
  PlanInput input = EvenSteps(20, {12});
  AddTemporary(&input, 12, 0, 9);
  const PageIndex a = AddItem(&input, 6, {ReadAt(19)});
  const PageIndex b = AddItem(&input, 6, {ReadAt(18)});
  const std::vector<Listed<PlannedFetch>> fetches = FetchesOf(MakePlan(input));
  // The link takes 3 steps for 6 pages. Pages for step 19 have steps 16 to 18, so pages for step 18
  // have 13 to 15. Both may come a step before, as there is room.
  ASSERT_EQ(fetches.size(), 2u);
  EXPECT_EQ(fetches[0].entry.first_page, b);
  EXPECT_LE(fetches[0].step, 13u);
  EXPECT_GE(fetches[0].step, 12u);
  EXPECT_EQ(fetches[0].step + fetches[0].entry.distance, 18u);
  EXPECT_EQ(fetches[1].entry.first_page, a);
  EXPECT_LE(fetches[1].step, 16u);
  EXPECT_GE(fetches[1].step, 15u);
  EXPECT_EQ(fetches[1].step + fetches[1].entry.distance, 19u);
}

TEST(PlanTest, PagesUsedFirstInAStepComeFirst) {
  PlanInput input = EvenSteps(10, {8}, {.in_s = 1e-9, .out_s = 1e-9});
  // Long steps at the end: everything comes in step 6, whatever it is for.
  for (std::uint32_t step = 0; step < 6; ++step) input.step_seconds[step] = 1e-6;
  AddTemporary(&input, 8, 3, 5);
  AddItem(&input, 4, {ReadAt(9)});
  AddItem(&input, 4, {ReadAt(8)});
  for (const Fetches& fetches : MakePlan(input).fetches) {
    for (std::size_t i = 1; i < fetches.size(); ++i) {
      EXPECT_LE(fetches[i - 1].distance, fetches[i].distance);
    }
  }
}

TEST(PlanTest, FetchesForTheFirstStepsAreListedWithTheLast) {
  PlanInput input = EvenSteps(10, {6});
  const PageIndex a = AddItem(&input, 6, {ReadAt(0)});
  AddTemporary(&input, 6, 3, 6);
  const Plan plan = MakePlan(input);
  EXPECT_EQ(plan.leaves[0], (Leaves{{a, 6, 0}}));
  EXPECT_EQ(plan.fetches[7], (Fetches{{a, 6, 0, 3}}));
}

TEST(PlanTest, APageIsHeldUntilItsStepEnds) {
  PlanInput input = EvenSteps(10, {2});
  input.step_ends[8] = 12;  // step 8 is over when step 2 of the next iteration begins
  const PageIndex a = AddItem(&input, 2, {ReadAt(8)});
  AddTemporary(&input, 2, 3, 4);
  const Plan plan = MakePlan(input);
  EXPECT_EQ(plan.leaves[8], (Leaves{{a, 2, 0}}));
  const std::vector<Listed<PlannedFetch>> fetches = FetchesOf(plan);
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_GE(fetches[0].step, 5u);
  EXPECT_EQ(fetches[0].step + fetches[0].entry.distance, 8u);
}

TEST(PlanTest, AUseBelowSendsDownAndFetchesUp) {
  PlanInput input = EvenSteps(10, {100});
  const PageIndex a = AddItem(&input, 4, {WriteAt(0), ReadAt(5, 1)});
  const Plan plan = MakePlan(input);
  EXPECT_EQ(plan.leaves[0], (Leaves{{a, 4, 0}}));
  EXPECT_EQ(LeavesOf(plan).size(), 1u);
  EXPECT_EQ(plan.fetches[8], (Fetches{{a, 4, 0, 2, PageMode::kWrite}}));
  EXPECT_EQ(FetchesOf(plan).size(), 1u);
}

TEST(PlanTest, PagesUsedOnlyInTheMiddleCountOnceThere) {
  PlanInput input = EvenSteps(20, {4, 2});
  AddItem(&input, 2, {WriteAt(0, 1), ReadAt(10, 1)});
  const Plan plan = MakePlan(input);
  EXPECT_TRUE(LeavesOf(plan).empty() && FetchesOf(plan).empty());
  EXPECT_TRUE(LeavesOf(plan, 1).empty() && FetchesOf(plan, 1).empty());
}

TEST(PlanTest, PagesThatDoNotFitIntoTheMiddleAreListedForItToo) {
  PlanInput input = EvenSteps(20, {4, 2});
  const PageIndex a = AddItem(&input, 2, {ReadAt(0)});
  const PageIndex b = AddItem(&input, 2, {ReadAt(2)});
  AddTemporary(&input, 4, 5, 12);
  const Plan plan = MakePlan(input);
  EXPECT_EQ(plan.leaves[0], (Leaves{{a, 2, 0}}));
  // Pages b are used in step 2, later than a, so b leaves the middle as soon as it is there. Pages
  // b are back there when a has gone up.
  EXPECT_EQ(plan.leaves[2], (Leaves{{b, 2, 0}, {b, 2, 1}}));
  EXPECT_EQ(LeavesOf(plan).size(), 2u);
  EXPECT_EQ(LeavesOf(plan, 1).size(), 1u);
  const std::vector<Listed<PlannedFetch>> up = FetchesOf(plan);
  const std::vector<Listed<PlannedFetch>> middle = FetchesOf(plan, 1);
  ASSERT_EQ(up.size(), 2u);
  EXPECT_EQ(up[0].entry.first_page, b);
  EXPECT_EQ(up[0].step + up[0].entry.distance, 2u);
  EXPECT_EQ(up[1].entry.first_page, a);
  EXPECT_EQ(up[1].step + up[1].entry.distance, 20u);
  ASSERT_EQ(middle.size(), 1u);
  EXPECT_EQ(middle[0].entry.first_page, b);
  EXPECT_EQ(middle[0].entry.pages, 2u);
  EXPECT_GE(middle[0].step, up[1].step);
  EXPECT_LT(middle[0].step, 20 + up[0].step) << "the page is there before it goes on";
  EXPECT_EQ(middle[0].step + middle[0].entry.distance, 22u);
}

TEST(PlanTest, AllStaysInTheMiddleThatFits) {
  PlanInput input = EvenSteps(20, {4, 4});
  AddItem(&input, 4, {ReadAt(0)});
  AddTemporary(&input, 4, 5, 12);
  const Plan plan = MakePlan(input);
  EXPECT_EQ(LeavesOf(plan).size(), 1u);
  EXPECT_TRUE(LeavesOf(plan, 1).empty());
  EXPECT_TRUE(FetchesOf(plan, 1).empty());
}

TEST(PlanTest, PagesUsedBelowNextStayAboveWhereTheMiddleIsShort) {
  PlanInput input = EvenSteps(20, {100, 4});
  const PageIndex a = AddItem(&input, 2, {WriteAt(0), ReadAt(10, 1)});
  AddItem(&input, 4, {WriteAt(2, 1), Last(ReadAt(6, 1))});
  const Plan plan = MakePlan(input);
  ASSERT_EQ(LeavesOf(plan).size(), 1u);
  EXPECT_EQ(LeavesOf(plan)[0].entry, (PlannedLeave{a, 2, 0}));
  EXPECT_GE(LeavesOf(plan)[0].step, 6u) << "the middle is full until then";
  EXPECT_LE(LeavesOf(plan)[0].step, 8u) << "the copy takes a step";
  EXPECT_TRUE(LeavesOf(plan, 1).empty());
}

TEST(PlanTest, PagesUsedBelowNextStayAboveWhereTheLastLinkBindsToo) {
  PlanInput input = EvenSteps(20, {100, 4});
  input.links[1] = {.in_s = 50, .out_s = 50};
  const PageIndex a = AddItem(&input, 2, {WriteAt(0), ReadAt(10, 1)});
  AddItem(&input, 4, {WriteAt(2, 1), ReadAt(4, 1), ReadAt(6, 1)});
  const Plan plan = MakePlan(input);
  ASSERT_EQ(LeavesOf(plan).size(), 1u);
  EXPECT_EQ(LeavesOf(plan)[0].entry, (PlannedLeave{a, 2, 0}));
  EXPECT_GE(LeavesOf(plan)[0].step, 6u);
}

TEST(PlanTest, WrittenPagesLeaveFirstAmongEquallyGoodOnes) {
  // Room is short in steps 5 to 8. Both are away then; one has been written for long, the other has
  // to be, and is used later.
  PlanInput input = EvenSteps(20, {3, 100});
  const PageIndex old = AddItem(&input, 1, {ReadAt(4), WriteAt(10)});
  const PageIndex fresh = AddItem(&input, 1, {WriteAt(3), Last(ReadAt(12))});
  AddTemporary(&input, 2, 5, 8);
  const Plan plan = MakePlan(input);
  EXPECT_EQ(plan.leaves[4], (Leaves{{old, 1, 0}}));
  for (const auto& listed : LeavesOf(plan)) {
    EXPECT_EQ(listed.entry.first_page, old) << "page " << fresh << " stays";
  }
}

TEST(PlanTest, TheFurthestLeavesWhereItAloneIsAwayForAsLongAsRoomIsShort) {
  PlanInput input = EvenSteps(20, {3, 100});
  AddItem(&input, 1, {ReadAt(4), WriteAt(10)});
  const PageIndex fresh = AddItem(&input, 1, {WriteAt(3), Last(ReadAt(15))});
  AddTemporary(&input, 2, 5, 12);
  const Plan plan = MakePlan(input);
  ASSERT_EQ(LeavesOf(plan).size(), 1u);
  EXPECT_EQ(plan.leaves[3], (Leaves{{fresh, 1, 0}}));
}

constexpr std::uint32_t kLayers = 12;
constexpr std::uint32_t kWeights = 3;      ///< pages of a layer
constexpr std::uint32_t kActivations = 4;  ///< pages of a layer

/// A forward and a backward pass: weights are read, and later written in the reverse order;
/// activations live from the one to the other. Most of either fits in neither tier.
PlanInput ForwardAndBackward() {
  PlanInput input = EvenSteps(2 * kLayers, {16, 16}, {.in_s = 0.05, .out_s = 0.05});
  input.links[1] = {.in_s = 0.4, .out_s = 0.4};
  const std::uint32_t last = 2 * kLayers - 1;
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    AddItem(&input, kWeights, {ReadAt(i), WriteAt(last - i)});
  }
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    AddItem(&input, kActivations, {OverwriteAt(i), Last(ReadAt(last - i))});
  }
  return input;
}

TEST(PlanTest, PagesThatGoFurthestDownLeaveFirstToSaveTraffic) {
  PlanInput input = ForwardAndBackward();
  input.objective = Objective::kTraffic;
  const Plan plan = MakePlan(input);
  std::uint32_t weights = 0, activations = 0;
  for (const auto& listed : FetchesOf(plan, 1)) {
    (listed.entry.first_page < kLayers * kWeights ? weights : activations) += listed.entry.pages;
  }
  // There is no room for 52 of the 84 pages when the backward pass begins. A choice tier by tier,
  // or leaves as soon as pages are not needed, would bring 69 back. Among these, 29 would be
  // activations, written in the forward pass, which has no time for it.
  EXPECT_LE(weights + activations, 64u);
  EXPECT_LE(activations, 22u);
}

TEST(PlanTest, PagesThatLeaveMakeRoomIfTheLastLinkBinds) {
  PlanInput input = ForwardAndBackward();
  input.links[1] = input.links[0];
  EXPECT_FALSE(MakePlan(input).leaves_make_room);
  input.links[1] = {.in_s = 10, .out_s = 10};
  EXPECT_TRUE(MakePlan(input).leaves_make_room);
  input.frames = {32, 1000};
  input.links = {{.in_s = 10, .out_s = 10}};
  EXPECT_FALSE(MakePlan(input).leaves_make_room) << "there is no tier between";
}

TEST(PlanTest, ThePlanThatMovesLessIsTakenIfALowerLinkBinds) {
  // A forward pass reads the weights in the middle tier. A backward pass writes them there, and the
  // states. So the link below the middle is busy for longer than all steps.
  PlanInput input = EvenSteps(2 * kLayers, {100, 20}, {.in_s = 0.01, .out_s = 0.01});
  input.links[1] = {.in_s = 0.5, .out_s = 0.5};
  const std::uint32_t last = 2 * kLayers - 1;
  for (std::uint32_t i = 0; i < kLayers; ++i) AddItem(&input, 4, {WriteAt(last - i, 1)});
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    AddItem(&input, 2, {ReadAt(i, 1), WriteAt(last - i, 1)});
  }
  std::uint32_t come = 0;
  for (const auto& listed : FetchesOf(MakePlan(input), 1)) come += listed.entry.pages;
  EXPECT_LE(come, 82u) << "92 if only what is away in time leaves";
}

/// A forward pass, and backward ops. A short update follows each backward op, and needs the states
/// of its layer, too. The first link is fast, the second one slow.
PlanInput WithUpdates(FrameIndex frames) {
  constexpr std::uint32_t kEach = 6;
  PlanInput input = EvenSteps(3 * kEach, {frames, 12}, {.in_s = 0.02, .out_s = 0.02});
  input.links[1] = {.in_s = 1, .out_s = 1};
  for (std::uint32_t i = 0; i < kEach; ++i) {
    const std::uint32_t update = 3 * kEach - 1 - 2 * i;
    input.step_seconds[i] = 0.5;
    input.step_seconds[update] = 0.05;
    AddItem(&input, 2, {ReadAt(i), ReadAt(update - 1), WriteAt(update)});
    AddItem(&input, 4, {WriteAt(update)});
    AddItem(&input, 2, {OverwriteAt(update - 1), Last(ReadAt(update))});
  }
  return input;
}

TEST(PlanTest, APlanForTrafficReplacesOneThatKeepsTheBusiestLinkTwiceAsBusy) {
  PlanInput input = WithUpdates(24);
  const auto come = [](const Plan& plan) {
    std::uint32_t pages = 0;
    for (const auto& listed : FetchesOf(plan, 1)) pages += listed.entry.pages;
    return pages;
  };
  const auto come_for_traffic = [&come](PlanInput other) {
    other.objective = Objective::kTraffic;
    return come(MakePlan(other));
  };
  const Plan plan = MakePlan(input);
  EXPECT_LE(come(plan), 4u) << "14 if each tier's part is chosen for time";
  EXPECT_FALSE(plan.leaves_make_room) << "the link is not waited for any more";
  // A link that no op waits for may move more than twice as much.
  input.links[1] = {.in_s = 0.1, .out_s = 0.1};
  EXPECT_GT(come(MakePlan(input)), 2 * come_for_traffic(input));
  // A link that ops wait for moves more, but less than twice as much.
  const PlanInput busy = WithUpdates(16);
  EXPECT_GT(2 * come(MakePlan(busy)), 3 * come_for_traffic(busy)) << "32 and 18";
}

TEST(PlanTest, ThePlanMovesLessIfALinkHasHardlyTimeLeft) {
  // A forward and a backward pass that read two pages of weights a layer, and keep one of it.
  constexpr std::uint32_t kSteps = 40;
  PlanInput input = EvenSteps(kSteps, {10}, {.in_s = 0.45, .out_s = 0.45});
  for (std::uint32_t i = 0; i < kSteps / 2; ++i) {
    AddItem(&input, 1, {OverwriteAt(i), Last(ReadAt(kSteps - 1 - i))});
    AddItem(&input, 2, {ReadAt(i), ReadAt(kSteps - 1 - i)});
  }
  std::uint32_t come = 0;
  for (const auto& listed : FetchesOf(MakePlan(input))) come += listed.entry.pages;
  EXPECT_LE(come, 82u) << "89, for all of the 40 s, if only what is away in time leaves";
}

TEST(PlanTest, KnowsWhatComesIntoATierForAUse) {
  Plan plan;
  plan.fetches.resize(10);
  plan.fetches[8] = {{5, 3, 1, 4}, {20, 2, 0, 4}};
  plan.fetches[1] = {{8, 2, 1, 1}};
  plan.ListReturns();
  for (PageIndex page = 0; page < 30; ++page) {
    EXPECT_EQ(plan.ComesInto(1, page, 2), page >= 5 && page < 10) << page;
    EXPECT_EQ(plan.ComesInto(0, page, 2), page >= 20 && page < 22) << page;
    EXPECT_FALSE(plan.ComesInto(1, page, 3)) << page;
  }
}

TEST(PlanTest, PagesAreWrittenWhileNothingComesWhereThereIsRoom) {
  PlanInput input = EvenSteps(20, {12});
  const PageIndex a = AddItem(&input, 2, {WriteAt(0)});
  AddItem(&input, 8, {ReadAt(5)});  // the item comes in steps 1 to 4
  AddTemporary(&input, 12, 10, 12);
  const Plan plan = MakePlan(input);
  EXPECT_TRUE(plan.leaves[0].empty());
  EXPECT_EQ(plan.leaves[4], (Leaves{{a, 2, 0}}));
}

}  // namespace
}  // namespace sluice::core
