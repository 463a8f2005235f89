#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "tests/runtime/core/plan/planned_fixture.h"

namespace sluice::core {
namespace {

TEST_F(PlannedTest, PagesComeAndLeaveAsListed) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  const auto plan = RecordAndAdopt(ops);
  ASSERT_GE(FetchesIn(*plan), 4u);
  Settle(ops);
  for (int i = 0; i < 3; ++i) {
    const Moved moved = Iterate(ops, 0, plan.get());
    EXPECT_EQ(moved.waited, 0u);
    EXPECT_EQ(moved.late, 0u);
    EXPECT_EQ(moved.fetched, FetchesIn(*plan));
    EXPECT_EQ(moved.written_ahead + moved.written_demand + moved.cleaned, 0u) << "only read";
  }
}

TEST_F(PlannedTest, AWrittenPageLeavesAheadOfNeed) {
  StartPlanned({4, 64}, 8);
  Ops ops;
  for (PageIndex page = 0; page < 8; ++page) ops.push_back({Write(page)});
  const auto plan = RecordAndAdopt(ops);
  Settle(ops);
  const Moved moved = Iterate(ops, 0, plan.get());
  EXPECT_EQ(moved.waited, 0u);
  EXPECT_EQ(moved.written_demand, 0u);
  EXPECT_EQ(moved.written_ahead, FetchesIn(*plan)) << "each is written before it comes back";
}

TEST_F(PlannedTest, APageThatStaysIsWrittenEarly) {
  // 0 is written in step 0, stays for step 1, and has to leave for step 4.
  StartPlanned({4, 64}, 5);
  const Ops ops = {{Write(0)},
                   {Read(0)},
                   {Read(1)},
                   {Read(1)},
                   {Read(1), Read(2), Read(3), Read(4)},
                   {Read(1)},
                   {Read(1)},
                   {Read(1)}};
  const auto plan = RecordAndAdopt(ops);
  ASSERT_EQ(plan->leaves[0].size(), 1u);
  ASSERT_EQ(plan->leaves[0][0], (PlannedLeave{0, 1, 0, true}));
  Settle(ops);
  const Moved moved = Iterate(ops, 0, plan.get());
  EXPECT_EQ(moved.waited, 0u);
  EXPECT_EQ(moved.cleaned, 1u);
  EXPECT_EQ(moved.written_ahead + moved.written_demand, 0u) << "the page leaves for nothing";
}

TEST_F(PlannedTest, ThreeTiers) {
  StartPlanned({3, 6, 64}, 12);
  Ops ops;
  for (PageIndex page = 0; page < 12; ++page)
    ops.push_back({page % 2 == 0 ? Write(page) : Read(page)});
  const auto plan = RecordAndAdopt(ops);
  Settle(ops);
  const Moved moved = Iterate(ops, 0, plan.get());
  EXPECT_EQ(moved.waited + moved.late, 0u);
  EXPECT_EQ(moved.written_demand, 0u);
}

TEST_F(PlannedTest, UsesInTheMiddleTier) {
  StartPlanned({3, 16, 64}, 6);
  const Ops ops = {{Write(0)},
                   {Write(1)},
                   {Read(2)},
                   {Read(3)},
                   {Read(0, 1)},
                   {Read(1, 1)},
                   {Read(4)},
                   {Read(5)}};
  const auto plan = RecordAndAdopt(ops);
  Settle(ops);
  const Moved moved = Iterate(ops, 0, plan.get());
  EXPECT_EQ(moved.waited, 0u);
  EXPECT_EQ(moved.written_demand, 0u);
}

TEST_F(PlannedTest, AnAdoptedPlanIsTakenUpInTheMiddleOfAnIteration) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  Iterate(ops);
  Iterate(ops);
  driver().Send(BeginIteration{0});
  for (std::uint32_t i = 0; i < 4; ++i) RunOp(ops[i], 0, i);
  const auto plan = PlanOf(0);
  driver().Send(AdoptPlan{0, plan});
  for (std::uint32_t i = 4; i < ops.size(); ++i) {
    RunOp(ops[i], 0, i);
    for (const PlannedLeave& leave : plan->leaves[i]) {
      EXPECT_FALSE(Resident(leave.first_page, leave.tier)) << "after step " << i;
    }
  }
  driver().Send(EndIteration{});
  EXPECT_GT(Iterate(ops).fetched, 0u);
}

TEST_F(PlannedTest, APlanThatComesBetweenIterationsBeginsWithTheNext) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  Iterate(ops);
  driver().Send(AdoptPlan{0, PlanOf(0)});
  EXPECT_GT(Iterate(ops).fetched, 0u);
}

TEST_F(PlannedTest, ADivergenceDropsThePlanUntilIterationsMatchAgain) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  const auto plan = RecordAndAdopt(ops);
  Settle(ops);
  const std::uint64_t divergences = driver().core().counters().divergences;
  const Ops other = ReadsOf({0, 1, 5, 2, 7, 6, 4});
  driver().Send(BeginIteration{0});
  RunOp(other[0], 0, 0);
  RunOp(other[1], 0, 1);
  std::uint64_t issued = 0;
  for (std::uint32_t i = 2; i < other.size(); ++i) {
    RunOp(other[i], 0, i);
    const std::uint64_t now = driver().core().counters().prefetch_issued;
    EXPECT_EQ(now, i > 2 ? issued : now) << "step " << i << " lists nothing any more";
    issued = now;
  }
  driver().Send(EndIteration{});
  EXPECT_EQ(driver().core().counters().divergences, divergences + 1);

  EXPECT_EQ(Iterate(ops).fetched, 0u) << "the recording is now the other, shorter one";
  Settle(ops);  // recorded once more, and so followed
  const Moved moved = Iterate(ops, 0, plan.get());
  EXPECT_EQ(moved.waited, 0u);
  EXPECT_EQ(moved.fetched, FetchesIn(*plan));
}

TEST_F(PlannedTest, APageHeldAtADivergenceDoesNotLeaveAsPlanned) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  const auto plan = RecordAndAdopt(ops);
  ASSERT_EQ(plan->leaves[2].size(), 1u);
  ASSERT_EQ(plan->leaves[2][0], (PlannedLeave{2, 1, 0}));
  Settle(ops);
  driver().Send(BeginIteration{0});
  for (std::uint32_t i = 0; i < 2; ++i) RunOp(ops[i], 0, i);
  const TicketNumber held = Acquire(ops[2], 0, 0, 2);
  driver().Drain();
  RunOp({Write(1)}, 0, 3);
  Release(held);
  driver().Drain();
  EXPECT_TRUE(Resident(2, 0));
  driver().Send(EndIteration{});
  Settle(ops);
  EXPECT_EQ(Iterate(ops, 0, plan.get()).waited, 0u);
}

TEST_F(PlannedTest, WithoutAPlanNothingIsFetchedAhead) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  RecordAndAdopt(ops);
  EXPECT_GT(Iterate(ops).fetched, 0u);
  driver().Send(AdoptPlan{0, nullptr});
  const Moved moved = Iterate(ops);
  EXPECT_EQ(moved.fetched, 0u);
  EXPECT_GT(moved.waited, 0u);
}

TEST_F(PlannedTest, APlanOfAnotherLengthIsNotFollowed) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  Plan longer = *RecordAndAdopt(ops);
  longer.leaves.emplace_back();
  longer.fetches.emplace_back();
  driver().Send(AdoptPlan{0, std::make_shared<const Plan>(longer)});
  EXPECT_EQ(Iterate(ops).fetched, 0u);
}

TEST_F(PlannedTest, APlanOfAnotherRecordingIsNotFollowed) {
  StartPlanned({4, 64}, 8);
  RecordAndAdopt(ReadsOf({0, 1, 2, 3, 4, 5, 6, 7}));
  const Ops other = ReadsOf({7, 5, 3, 1, 6, 0, 2, 4});
  Iterate(other);
  EXPECT_EQ(Iterate(other).fetched, 0u) << "the steps are as many, but others";
}

TEST_F(PlannedTest, AnOpThatOutlastsItsIterationIsNotTakenForAStepOfTheNextPlan) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  RecordAndAdopt(ReadsOf({0, 5, 6, 7, 1}), 1);
  const auto plan = RecordAndAdopt(ops, 0);
  Settle(ops);
  driver().Send(BeginIteration{0});
  RunOp(ops[0], 0, 0);
  const TicketNumber held = Acquire(ops[1], 0, 0, 1);
  driver().Drain();
  for (std::uint32_t i = 2; i < ops.size(); ++i) RunOp(ops[i], 0, i);
  driver().Send(EndIteration{});
  driver().Send(BeginIteration{1});
  Release(held);
  driver().Drain();
  EXPECT_TRUE(Resident(1, 0));
  driver().Send(EndIteration{});
  Settle(ops);
  EXPECT_EQ(Iterate(ops, 0, plan.get()).waited, 0u);
}

TEST_F(PlannedTest, AUsedPageDoesNotLeaveLate) {
  StartPlanned({4, 16, 64}, 4);
  const Ops ops = ReadsOf({0, 1, 0, 2, 3});
  // Page 0 is not in tier 1 when it is to leave it, since all pages fit into tier 0. When it comes
  // there, its use is over.
  RecordAndAdopt(ops, {{1, {{0, 1, 1}}}, {2, {{0, 1, 0}}}});
  Iterate(ops);
  EXPECT_FALSE(Resident(0, 0));
  EXPECT_TRUE(Resident(0, 1));
  EXPECT_FALSE(Resident(0, 2));
}

TEST_F(PlannedTest, AFullLinkHoldsUpNoOther) {
  StartPlanned({8, 16, 64}, 4, 1);
  const Ops ops = {{Write(0)}, {Write(1)}, {Write(2)}, {Read(3)}};
  RecordAndAdopt(ops, {{0, {{0, 1, 0}}}, {1, {{1, 1, 0}}}, {2, {{0, 2, 1}, {2, 1, 0}}}});
  driver().Send(BeginIteration{0});
  RunSteps(ops, 0, 2);
  const std::vector<Action> actions = RunStep(ops, 2);
  EXPECT_TRUE(Copies(actions, 0, 1));
  EXPECT_FALSE(Copies(actions, 1, 1)) << "one at a time";
  EXPECT_TRUE(Copies(actions, 2, 0));
  driver().Drain();
}

TEST_F(PlannedTest, APageThatLeavesForNothingWaitsForNoLink) {
  StartPlanned({8, 64}, 4, 1);
  const Ops ops = {{Write(0)}, {Write(1)}, {Read(2)}, {Read(3)}};
  RecordAndAdopt(ops, {{2, {{0, 1, 0}, {1, 1, 0}, {2, 1, 0}}}});
  Iterate(ops);  // page 2 is clean from now on
  driver().Send(BeginIteration{0});
  RunSteps(ops, 0, 1);
  RunOp(ops[1], 0, 1);
  const TicketNumber ticket = Acquire(ops[2], 0, 0, 2);
  driver().Drain();
  Release(ticket);
  EXPECT_TRUE(Copies(actions(), 0, 0));
  EXPECT_FALSE(Resident(2, 0));
  driver().Drain();
}

TEST_F(PlannedTest, PagesThatAreOnlyWrittenDoNotHoldUpThoseThatLeave) {
  StartPlanned({8, 16, 64}, 4, 2);
  const Ops ops = {{Write(2)}, {Write(0)}, {Write(1)}, {Read(3)}};
  // 0 and 1 are to be written further down when they have come.
  RecordAndAdopt(ops,
                 {{0, {{2, 1, 0}}},
                  {2, {{0, 1, 1, true}, {1, 1, 1, true}, {0, 1, 0}, {1, 1, 0}}},
                  {3, {{2, 1, 1}}}});
  driver().Send(BeginIteration{0});
  RunSteps(ops, 0, 3);
  EXPECT_TRUE(Copies(RunStep(ops, 3), 2, 1));
  driver().Drain();
  EXPECT_TRUE(Resident(0, 2));
  EXPECT_TRUE(Resident(1, 2));
}

TEST_F(PlannedTest, APageDueBackBeforeItHasLeftStays) {
  StartPlanned({8, 64}, 4, 1);
  const Ops ops = {{Write(0)}, {Write(1)}, {Read(2)}, {Read(3)}, {Read(0)}};
  RecordAndAdopt(ops, {{1, {{1, 1, 0}, {0, 1, 0}}}}, {{2, {{0, 1, 0, 2}}}});
  driver().Send(BeginIteration{0});
  RunSteps(ops, 0, 1);
  EXPECT_FALSE(Copies(RunStep(ops, 1), 0, 0)) << "1 goes first";
  RunSteps(ops, 2, 4);
  EXPECT_FALSE(Resident(1, 0));
  EXPECT_TRUE(Resident(0, 0));
  EXPECT_FALSE(Resident(0, 1));
  RunSteps(ops, 4, 5);
}

TEST_F(PlannedTest, APageDueBackWhileItLeavesStays) {
  StartPlanned({8, 64}, 4, 1);
  const Ops ops = {{Write(0)}, {Write(1)}, {Read(2)}, {Read(3)}, {Read(0)}};
  RecordAndAdopt(ops, {{1, {{0, 1, 0}}}}, {{2, {{0, 1, 0, 2}}}});
  driver().Send(BeginIteration{0});
  RunSteps(ops, 0, 1);
  EXPECT_TRUE(Copies(RunStep(ops, 1), 0, 0));
  RunSteps(ops, 2, 4);
  EXPECT_TRUE(Resident(0, 0));
  EXPECT_TRUE(Resident(0, 1));
  RunSteps(ops, 4, 5);
}

TEST_F(PlannedTest, APageThatComesBelowAndIsStillAboveDoesNotMove) {
  StartPlanned({8, 16, 64}, 4);
  const Ops ops = {{Write(0)}, {Write(1)}, {Read(2)}, {Read(3)}, {Read(0), Read(1, 1)}};
  RecordAndAdopt(ops, {}, {{2, {{0, 2, 1, 2}}}});
  driver().Send(BeginIteration{0});
  RunSteps(ops, 0, 4);
  EXPECT_TRUE(Resident(0, 0));
  EXPECT_FALSE(Resident(0, 1));
  EXPECT_TRUE(Resident(1, 1)) << "an op uses it there";
}

TEST_F(PlannedTest, FetchesTakeTheFramesOfCleanPagesThatTheirPlanHasLetGo) {
  StartPlanned({2, 7, 64}, 6);
  Ops ops;
  std::map<std::uint32_t, std::vector<PlannedLeave>> leaves;
  std::map<std::uint32_t, std::vector<PlannedFetch>> fetches;
  for (PageIndex page = 0; page < 6; ++page) {  // 3 of them fit
    ops.push_back({Read(page, 1)});
    leaves[page] = {{page, 1, 1}};
    fetches[page] = {{(page + 1) % 6, 1, 1, 1}};
  }
  RecordAndAdopt(ops, leaves, fetches);
  Settle(ops);
  const Moved moved = Iterate(ops);
  EXPECT_EQ(moved.waited, 0u);
  EXPECT_EQ(moved.fetched, 6u);
  EXPECT_TRUE(Resident(4, 1)) << "the page stays until its frame is needed";
}

TEST_F(PlannedTest, FetchesTakeTheFramesOfPagesThatHaveBeenBroughtUp) {
  StartPlanned({7, 7, 64}, 6);
  Ops ops;
  for (PageIndex page = 0; page < 3; ++page) ops.push_back({Write(page, 1)});  // no more fit
  for (PageIndex page = 0; page < 3; ++page) ops.push_back({Read(page)});
  for (PageIndex page = 3; page < 6; ++page) ops.push_back({Write(page, 1)});
  for (PageIndex page = 0; page < 3; ++page) ops.push_back({Read(page)});
  RecordAndAdopt(
      ops, {{8, {{3, 3, 1}}}, {11, {{0, 3, 0}}}}, {{2, {{0, 3, 0, 1}}}, {5, {{3, 3, 1, 1}}}});
  Settle(ops);
  driver().Send(BeginIteration{0});
  RunSteps(ops, 0, 6);
  for (PageIndex page = 0; page < 3; ++page) {
    EXPECT_TRUE(Resident(page, 0)) << page;
    EXPECT_TRUE(Resident(page + 3, 1)) << page + 3;
  }
}

TEST_F(PlannedTest, PagesThatStayAreKeptFromTheBeginOfAPlan) {
  Start({.frames = {8, 64}, .policy = "planned"});
  Create({.segment = 9, .first_page = 0, .pages = 16, .lowest = 1, .file_home = true});
  Ops ops;
  for (PageIndex page = 0; page < 16; page += 2) ops.push_back({Read(page), Read(page + 1)});
  const auto plan = RecordAndAdopt(ops);
  std::vector<PageIndex> kept;
  for (PageIndex page = 0; page < 16; ++page) {
    const bool leaves = std::any_of(plan->returns.begin(), plan->returns.end(), [&](auto& back) {
      return page >= back.first_page && page < back.first_page + back.pages;
    });
    if (!leaves && Resident(page, 0)) kept.push_back(page);
  }
  ASSERT_FALSE(kept.empty());
  driver().Send(BeginIteration{0});
  for (std::uint32_t step = 0; step < ops.size(); ++step) {
    RunSteps(ops, step, step + 1);
    for (const PageIndex page : kept) EXPECT_TRUE(Resident(page, 0)) << page << ", step " << step;
  }
}

TEST_F(PlannedTest, PagesThatAPlanFindsStayForTheirFirstUse) {
  Start({.frames = {4, 64}, .policy = "planned", .prefetch_ops = 8});
  Create({.segment = 9, .first_page = 0, .pages = 8, .lowest = 1, .file_home = true});
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  driver().Send(BeginIteration{0});
  for (std::uint32_t step = 0; step < ops.size(); ++step) {
    RunSteps(ops, step, step + 1);
    driver().Send(PrefetchPages{ops[step], 8});
  }
  driver().Send(EndIteration{});
  Plan plan;  // 5, 6 and 7 stay; each of the others comes one step before its use
  plan.recording = driver().core().RecordedPlan(0).recording;
  plan.leaves.resize(ops.size());
  plan.fetches.resize(ops.size());
  for (PageIndex page = 0; page < 5; ++page) {
    plan.leaves[page].push_back({page, 1, 0});
    plan.fetches[(page + 7) % 8].push_back({page, 1, 0, 1});
  }
  plan.ListReturns();
  driver().Send(AdoptPlan{0, std::make_shared<const Plan>(std::move(plan))});
  driver().Send(BeginIteration{0});
  for (std::uint32_t step = 0; step < 3; ++step) {
    for (PageIndex page = step; page < 3; ++page) EXPECT_TRUE(Resident(page, 0)) << page;
    RunSteps(ops, step, step + 1);
  }
}

TEST_F(PlannedTest, KeysHavePlansOfTheirOwn) {
  StartPlanned({4, 64}, 8);
  const Ops ops = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  const Ops other = ReadsOf({7, 5, 3, 1, 6, 0});
  RecordAndAdopt(ops, 0);
  Iterate(other, 1);
  EXPECT_EQ(Iterate(other, 1).fetched, 0u) << "key 1 has none";
  EXPECT_GT(Iterate(ops, 0).fetched, 0u);
  const auto plan = PlanOf(1);
  driver().Send(AdoptPlan{1, plan});
  Iterate(other, 1);
  EXPECT_EQ(Iterate(other, 1, plan.get()).fetched, FetchesIn(*plan));
  driver().Send(AdoptPlan{1, nullptr});
  EXPECT_EQ(Iterate(other, 1).fetched, 0u);
  EXPECT_GT(Iterate(ops, 0).fetched, 0u) << "the plan of key 0 is still there";
}

}  // namespace
}  // namespace sluice::core
