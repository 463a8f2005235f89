#include "tests/runtime/core/plan/planned_fixture.h"

namespace sluice::core {
namespace {

/// Frames of the middle tier: four for pages, and its transit frames.
constexpr FrameIndex kMiddle = 8;

/// Plans that keep pages in a middle tier.
class PlannedTiersTest : public PlannedTest {
 protected:
  /// Copies of the page from `source` to `target` among the actions.
  static std::size_t Copied(const std::vector<Action>& actions,
                            PageIndex page,
                            TierIndex source,
                            TierIndex target) {
    const std::vector<StartCopy> copies = Select<StartCopy>(actions);
    return static_cast<std::size_t>(
        std::count_if(copies.begin(), copies.end(), [&](const StartCopy& copy) {
          return copy.page == page && copy.source == source && copy.target == target;
        }));
  }
  /// Ops that read page 0 above and the others in the middle tier. The others displace the copy
  /// that page 0 left there on its way.
  static Ops OneAboveManyBelow() {
    Ops ops = {{Read(0)}};
    for (PageIndex page = 1; page <= 8; ++page) ops.push_back({Read(page, 1)});
    return ops;
  }
  /// Records the iteration. Returns a plan for it in which nothing moves.
  std::shared_ptr<Plan> EmptyPlanOf(const Ops& ops) {
    auto plan = std::make_shared<Plan>(*RecordAndAdopt(ops));
    for (auto& step : plan->leaves) step.clear();
    for (auto& step : plan->fetches) step.clear();
    plan->ListReturns();
    return plan;
  }
  /// Ops that write page 0 above, then fill the middle tier with other pages, which are used
  /// sooner.
  static Ops MiddleFullOfSoonerUses() {
    Ops ops = {{Write(0)}};
    for (int round = 0; round < 2; ++round) {
      for (PageIndex page = 1; page <= 4; ++page) ops.push_back({Write(page, 1)});
    }
    return ops;
  }
  /// Actions of the fifth op under the plan.
  std::vector<Action> RunToFifth(const Ops& ops, const std::shared_ptr<const Plan>& plan) {
    driver().Send(AdoptPlan{0, plan});
    Settle(ops);
    driver().Send(BeginIteration{0});
    RunSteps(ops, 0, 4);
    return RunOp(ops[4], 0, 4);
  }
  /// Actions of the step after which page 0 is to leave. It is valid above and in the last tier
  /// only.
  std::vector<Action> RunToLeave(const Ops& ops) {
    Settle(ops);
    driver().Send(BeginIteration{0});
    RunSteps(ops, 0, 8);
    EXPECT_TRUE(Resident(0, 0));
    EXPECT_FALSE(Resident(0, 1));
    EXPECT_TRUE(Resident(0, 2));
    return RunOp(ops[8], 0, 8);
  }
};

TEST_F(PlannedTiersTest, APageValidInTheLastTierIsCopiedToTheOneThatKeepsIt) {
  StartPlanned({4, kMiddle, 64}, 9);
  const Ops ops = OneAboveManyBelow();
  RecordAndAdopt(ops, {{8, {{0, 1, 0}}}});
  const std::vector<Action> done = RunToLeave(ops);
  EXPECT_EQ(Copied(done, 0, 0, 1), 1u);
  EXPECT_TRUE(Resident(0, 1));
  EXPECT_FALSE(Resident(0, 0));
}

TEST_F(PlannedTiersTest, APageThatComesBackFromTheLastTierIsDropped) {
  StartPlanned({4, kMiddle, 64}, 9);
  const Ops ops = OneAboveManyBelow();
  RecordAndAdopt(ops, {{8, {{0, 1, 0}}}}, {{7, {{0, 1, 1, 2}}}});
  const std::vector<Action> done = RunToLeave(ops);
  EXPECT_EQ(Copied(done, 0, 0, 1), 0u);
  EXPECT_FALSE(Resident(0, 0));
}

TEST_F(PlannedTiersTest, APageThatTheMiddleTierKeepsWaitsForAFrameThere) {
  StartPlanned({4, kMiddle, 64}, 5);
  const Ops ops = MiddleFullOfSoonerUses();
  const std::shared_ptr<Plan> plan = EmptyPlanOf(ops);
  plan->leaves[4] = {{0, 1, 0}};
  const std::vector<Action> done = RunToFifth(ops, plan);
  EXPECT_EQ(Copied(done, 0, 1, 2), 0u);
  EXPECT_TRUE(Resident(0, 1));
}

TEST_F(PlannedTiersTest, APageThatGoesFurtherDownPassesBy) {
  StartPlanned({4, kMiddle, 64}, 5);
  const Ops ops = MiddleFullOfSoonerUses();
  const std::shared_ptr<Plan> plan = EmptyPlanOf(ops);
  plan->leaves[4] = {{0, 1, 0}};
  plan->returns = {{1, 0, 0, 1}};
  const std::vector<Action> done = RunToFifth(ops, plan);
  EXPECT_EQ(Copied(done, 0, 1, 2), 1u);
  EXPECT_FALSE(Resident(0, 1));
}

/// Two pages are to leave, one behind the other, when the last op needs a frame. Other pages could
/// be dropped without a write.
TEST_F(PlannedTiersTest, NothingElseIsDroppedWhileWhatLeavesMakesRoom) {
  for (const bool makes_room : {true, false}) {
    StartPlanned({4, kMiddle, 64}, 5, 1);
    const Ops ops = {{Write(0), Write(1), Read(2), Read(3), Read(4, 1)}, {Read(4)}};
    const std::shared_ptr<Plan> plan = EmptyPlanOf(ops);
    plan->leaves[0] = {{0, 2, 0}, {2, 2, 0, true}};
    plan->leaves_make_room = makes_room;
    driver().Send(AdoptPlan{0, plan});
    Settle(ops);
    driver().Send(BeginIteration{0});
    const TicketNumber first = Acquire(ops[0], 0, 0, 0);
    driver().Drain();
    Release(first);
    const TicketNumber last = Acquire(ops[1], 0, 0, 1);
    EXPECT_EQ(Resident(2, 0) && Resident(3, 0), makes_room);
    driver().Drain();
    EXPECT_TRUE(Granted(last));
    EXPECT_FALSE(Resident(0, 0));
    Release(last);
  }
}

}  // namespace
}  // namespace sluice::core
