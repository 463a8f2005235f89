#include "runtime/core/plan/fixed_pages.h"

#include <vector>

#include "tests/runtime/core/plan/planned_fixture.h"

namespace sluice::core {
namespace {

class FixedPagesTest : public PlannedTest {
 protected:
  /// Steps 0 to 7 read pages 0 to 7. The tiers have also pages 8 to 11.
  void StartReads(FrameIndex frames) {
    StartPlanned({frames, 64}, 12);
    ops_ = ReadsOf({0, 1, 2, 3, 4, 5, 6, 7});
  }
  FrameIndex FramesOfPlan() { return driver().core().RecordedPlan(0).frames[0]; }
  std::uint32_t Fixed() { return driver().core().CountFixedPages()[0]; }
  /// Lowest tier of each page of a plan.
  std::map<PageIndex, TierIndex> Lowest() {
    std::map<PageIndex, TierIndex> lowest;
    for (const PlanItem& item : driver().core().RecordedPlan(0).items) {
      for (PageIndex i = 0; i < item.pages; ++i) lowest[item.first_page + i] = item.lowest;
    }
    return lowest;
  }
  /// Runs planned iterations, in which no op may wait.
  void ExpectNoWaits() {
    const auto plan = RecordAndAdopt(ops_);
    Settle(ops_);
    const Moved moved = Iterate(ops_, 0, plan.get());
    EXPECT_EQ(moved.waited + moved.late, 0u);
    EXPECT_EQ(moved.fetched, FetchesIn(*plan));
  }

  Ops ops_;
};

TEST_F(FixedPagesTest, PagesThatLeasesHoldThroughoutAreNoRoom) {
  StartReads(6);
  const TicketNumber both = Acquire({Read(8), Read(9)});
  const TicketNumber again = Acquire({Read(9)});
  driver().Drain();
  Iterate(ops_);
  EXPECT_EQ(FramesOfPlan(), 4u);
  EXPECT_EQ(Fixed(), 2u);
  ExpectNoWaits();
  Release(both);
  EXPECT_EQ(FramesOfPlan(), 5u);
  EXPECT_EQ(Fixed(), 1u);
  Release(again);
  EXPECT_EQ(FramesOfPlan(), 6u);
}

TEST_F(FixedPagesTest, APageThatWasGivenBackIsRoomThoughOthersOfItsTicketAreHeld) {
  StartReads(6);
  const TicketNumber ticket = Acquire({Read(8), Read(9)});
  driver().Drain();
  driver().Send(core::Release{.ticket = ticket, .pages = {8}});
  Iterate(ops_);
  EXPECT_EQ(FramesOfPlan(), 5u);
  EXPECT_EQ(Fixed(), 1u);
}

TEST_F(FixedPagesTest, APageThatIsHeldAndUsedStays) {
  StartReads(6);
  const TicketNumber held = Acquire({Read(3)});
  driver().Drain();
  Iterate(ops_);
  EXPECT_EQ(FramesOfPlan(), 6u) << "the plan has the page";
  std::map<PageIndex, TierIndex> lowest = Lowest();
  EXPECT_EQ(lowest.size(), 8u);
  EXPECT_EQ(lowest.at(3), 0);
  lowest.erase(3);
  for (const auto& [page, tier] : lowest) EXPECT_EQ(tier, 1) << page;
  ExpectNoWaits();
  Release(held);
}

TEST_F(FixedPagesTest, LeasesOfTheIterationAreItsOwn) {
  StartReads(6);
  driver().Send(BeginIteration{0});
  RunSteps(ops_, 0, 7);
  const TicketNumber last = Acquire(ops_[7], 0, 0, 7);
  driver().Drain();
  driver().Send(EndIteration{});
  EXPECT_EQ(FramesOfPlan(), 6u);
  EXPECT_EQ(Fixed(), 0u);
  EXPECT_EQ(Lowest().at(7), 1);
  driver().Send(BeginIteration{0});
  RunSteps(ops_, 0, 8);
  driver().Send(EndIteration{});
  EXPECT_EQ(Fixed(), 1u) << "held throughout the second one";
  Release(last);
}

TEST_F(FixedPagesTest, AnIterationThatTheNextOneEndsIsTheOneThatCounts) {
  StartReads(6);
  driver().Send(BeginIteration{0});
  RunSteps(ops_, 0, 7);
  const TicketNumber last = Acquire(ops_[7], 0, 0, 7);
  driver().Drain();
  driver().Send(BeginIteration{0});
  EXPECT_EQ(Fixed(), 0u);
  Release(last);
}

TEST_F(FixedPagesTest, WrittenPagesThatMayReachNoLowerTierAreNoRoom) {
  StartReads(8);
  Create({.segment = 9, .first_page = 12, .pages = 3, .lowest = 0});
  Iterate(ops_);
  EXPECT_EQ(FramesOfPlan(), 8u) << "they have no content";
  RunOp({Write(12)});
  RunOp({Write(13)});
  EXPECT_EQ(FramesOfPlan(), 6u);
  EXPECT_EQ(Fixed(), 2u);
  ExpectNoWaits();
  driver().Send(FreePages{.first_page = 12, .pages = 3});
  EXPECT_EQ(FramesOfPlan(), 8u);
  EXPECT_EQ(Fixed(), 0u);
}

TEST_F(FixedPagesTest, WrittenPagesOfTheIterationStayInTheirLowestTier) {
  StartReads(6);
  Create({.segment = 9, .first_page = 12, .pages = 2, .lowest = 0});
  ops_[2].push_back(Write(12));
  ops_[5].push_back(Write(13));
  Iterate(ops_);
  EXPECT_EQ(FramesOfPlan(), 6u);
  EXPECT_EQ(Lowest().at(12), 0);
  EXPECT_EQ(Lowest().at(13), 0);
  ExpectNoWaits();
}

TEST_F(FixedPagesTest, PagesThatAreOverwrittenNextStayTillThen) {
  StartReads(6);
  Create({.segment = 9, .first_page = 12, .pages = 2, .lowest = 0});
  ops_[2].push_back(Overwrite(12));
  ops_[5].push_back(Overwrite(13));
  Iterate(ops_);
  EXPECT_EQ(Lowest().at(12), 0);
  EXPECT_EQ(Fixed(), 2u);
  ExpectNoWaits();
}

TEST_F(FixedPagesTest, PagesThatNobodyWritesHaveNothingToStayFor) {
  StartReads(6);
  Create({.segment = 9, .first_page = 12, .pages = 1, .lowest = 0});
  ops_[2].push_back(Read(12));
  Iterate(ops_);
  EXPECT_EQ(Lowest().at(12), 1);
  EXPECT_EQ(Fixed(), 0u);
}

TEST_F(FixedPagesTest, PagesWhoseContentDiesWithinTheIterationStayTillThen) {
  StartReads(6);
  Create({.segment = 9, .first_page = 12, .pages = 1, .lowest = 0});
  ops_[2].push_back(Overwrite(12));
  ops_[5].push_back(Read(12));
  driver().Send(BeginIteration{0});
  RunSteps(ops_, 0, 6);
  driver().Send(DiscardPages{.first_page = 12, .pages = 1});
  RunSteps(ops_, 6, 8);
  driver().Send(EndIteration{});
  EXPECT_EQ(Lowest().at(12), 0);
  EXPECT_EQ(Fixed(), 0u);
}

TEST_F(FixedPagesTest, PagesOfAFileMayLeave) {
  StartReads(6);
  Create({.segment = 9, .first_page = 12, .pages = 2, .lowest = 0, .file_home = true});
  RunOp({Read(12)});
  ops_[5].push_back(Read(13));
  Iterate(ops_);
  EXPECT_EQ(FramesOfPlan(), 6u);
  EXPECT_EQ(Lowest().at(13), 1);
}

}  // namespace
}  // namespace sluice::core
