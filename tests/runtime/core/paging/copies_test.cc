#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/runtime/core/machine/faults_fixture.h"

namespace sluice::core {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

/// Copies that may soon be unreadable, as a drive that fails tells of them.
class CopiesTest : public FaultsTest {
 protected:
  /// Page 0 is on its way down, for the ticket, when all frames below are abandoned.
  std::pair<TicketNumber, StartCopy> AbandonOnTheWay() {
    StartTwoTiers(1);
    Create(2, 1);
    RunOp({Write(0)});
    const TicketNumber other = Acquire({Read(1)});
    const std::vector<StartCopy> leaves = Select<StartCopy>(actions());
    EXPECT_EQ(leaves.size(), 1u);
    AbandonAll();
    return {other, leaves.at(0)};
  }
};

TEST_F(CopiesTest, PagesOnlyInTheLastTierAreToldApart) {
  StartTwoTiers(2);
  Create(4, 1);
  Create({.segment = 2, .first_page = 4, .pages = 1, .lowest = 1, .reproducible = true});
  RunOp({Write(4)});
  for (PageIndex page = 0; page < 4; ++page) RunOp({Write(page)});
  std::vector<FrameIndex> all;
  for (FrameIndex frame = 0; frame < 64; ++frame) all.push_back(frame);
  // 2 and 3 are in the first tier, 4 can be made again.
  EXPECT_THAT(driver().core().PagesOnlyIn(all), UnorderedElementsAre(0, 1));
  EXPECT_THAT(driver().core().PagesOnlyIn({}), IsEmpty());
  std::vector<PageIndex> one_by_one;
  for (const FrameIndex frame : all) {
    for (const PageIndex page : driver().core().PagesOnlyIn({frame})) one_by_one.push_back(page);
  }
  EXPECT_EQ(driver().core().PagesOnlyIn(all), one_by_one);
  RunOp({Read(0)});  // page 0 takes the place of 2, which goes down
  EXPECT_THAT(driver().core().PagesOnlyIn(all), UnorderedElementsAre(1, 2));
  driver().Send(DiscardPages{1, 1});
  driver().Drain();
  EXPECT_THAT(driver().core().PagesOnlyIn(all), UnorderedElementsAre(2));
  Acquire({Read(2)});  // page 2 on its way to the first tier
  EXPECT_THAT(driver().core().PagesOnlyIn(all), UnorderedElementsAre(2));
  driver().Send(FreePages{2, 1});
  EXPECT_THAT(driver().core().PagesOnlyIn(all), Not(Contains(2))) << "page 2 is being freed";
}

TEST_F(CopiesTest, AnAbandonedCopyStaysUntilThereIsAnother) {
  StartTwoTiers(1);
  Create(2, 1);
  WriteDown(0, 1);
  const FrameIndex first = Select<StartCopy>(RunOp({Read(0)})).front().source_frame;
  EXPECT_EQ(CopiesOut(RunOp({Read(1)})), 0u) << "the page is clean";
  AbandonAll();
  EXPECT_TRUE(Resident(0, 1)) << "the copy is the only one";
  RunOp({Read(0)});
  const std::vector<Action> leaves = RunOp({Read(1)});
  ASSERT_EQ(CopiesOut(leaves), 1u) << "the page is written elsewhere";
  const DropFrame old{.page = 0, .tier = 1, .frame = first};
  EXPECT_EQ(Select<DropFrame>(leaves).front(), old)
      << "the old frame goes once the new copy is there";
  RunOp({Read(0)});
  EXPECT_EQ(CopiesOut(RunOp({Read(1)})), 0u) << "the page is safe in its other place";
}

TEST_F(CopiesTest, ACopyOnItsWayToAnAbandonedFrameIsMadeAgainBeforeItsSourceGoes) {
  const auto [other, leaves] = AbandonOnTheWay();
  const std::vector<Action> again = driver().Done(leaves.task);
  EXPECT_TRUE(Resident(0, 0) && Resident(0, 1));
  ASSERT_EQ(CopiesOut(again), 1u) << "the page is written elsewhere";
  EXPECT_NE(Select<StartCopy>(again)[0].target_frame, leaves.target_frame);
  driver().Drain();
  ASSERT_TRUE(Granted(other));
  EXPECT_FALSE(Resident(0, 0));
  Release(other);
  RunOp({Read(0)});
  EXPECT_EQ(CopiesOut(RunOp({Read(1)})), 0u) << "the page is safe in its other place";
}

TEST_F(CopiesTest, ACopyOnItsWayToAnAbandonedFrameIsGoodEnoughWhileNothingIsTaken) {
  const auto [other, leaves] = AbandonOnTheWay();
  driver().Done(leaves.task);
  FailCopiesTo(1, FailureKind::kTargetFull);
  EXPECT_EQ(Select<FenceTier>(driver().Drain()).size(), 1u);
  EXPECT_TRUE(Granted(other));
  EXPECT_TRUE(Resident(0, 1) && !Resident(0, 0));
}

/// Three tiers whose middle one has only its transit frames left; pages from 3 on are to be used.
class PassedTierTest : public CopiesTest {
 protected:
  void SetUp() override {
    Start({.frames = {2, 7, 64}, .policy = "lru", .transit_frames = 2});
    Create(12, 2);
    const TicketNumber middle = Acquire({Write(0, 1), Write(1, 1), Write(2, 1)});
    driver().Drain();
    ASSERT_TRUE(Granted(middle));
  }

  /// Steps until a copy of `page` goes from tier 1 to `target`.
  StartCopy AwaitSecondHop(PageIndex page, TierIndex target) {
    for (int i = 0; i < 100; ++i) {
      for (const auto& [number, task] : driver().frames().tasks()) {
        const StartCopy* copy = task.copy();
        if (copy != nullptr && copy->page == page && copy->source == 1 && copy->target == target) {
          return *copy;
        }
      }
      driver().Step();
    }
    ADD_FAILURE() << driver().Report();
    return {};
  }
};

TEST_F(PassedTierTest, APageThatPassesOnItsWayToAnAbandonedFrameStaysUntilItIsElsewhere) {
  RunOp({Write(3)});
  RunOp({Write(4)});
  const TicketNumber other = Acquire({Write(5)});
  const StartCopy leaves = AwaitSecondHop(3, 2);
  AbandonAll();
  driver().Done(leaves.task);
  EXPECT_TRUE(Resident(3, 1) && Resident(3, 2));
  EXPECT_NE(AwaitSecondHop(3, 2).target_frame, leaves.target_frame);
  driver().Drain();
  EXPECT_TRUE(Granted(other));
  EXPECT_TRUE(Resident(3, 2) && !Resident(3, 1));
}

TEST_F(PassedTierTest, APageOnItsWayUpIsStillOnlyInTheLastTier) {
  for (PageIndex page = 3; page < 6; ++page) RunOp({Write(page)});
  const TicketNumber reader = Acquire({Read(3)});
  const StartCopy comes = AwaitSecondHop(3, 0);
  ASSERT_TRUE(Resident(3, 1) && Resident(3, 2));
  std::vector<FrameIndex> all;
  for (FrameIndex frame = 0; frame < 64; ++frame) all.push_back(frame);
  EXPECT_THAT(driver().core().PagesOnlyIn(all), Contains(3)) << "the copy may yet turn back";
  AbandonAll();
  driver().Send(Cancel{reader});
  driver().Failed(comes.task, FailureKind::kTargetFailed);
  driver().Drain();
  EXPECT_TRUE(Resident(3, 2) && !Resident(3, 1)) << "the copy turns back";
}

TEST_F(CopiesTest, ACleanCopyOnItsWayToAnAbandonedFrameIsMadeAgain) {
  Start({.frames = {2, 64}, .policy = "lru", .clean_share = 1});
  Create(2, 1);
  const TicketNumber writer = Acquire({Write(0)});
  driver().Drain();
  Release(writer);
  ASSERT_EQ(CopiesOut(actions()), 1u);
  AbandonAll();
  EXPECT_EQ(CopiesOut(driver().Drain()), 1u);
  EXPECT_TRUE(Resident(0, 0) && Resident(0, 1));
}

TEST_F(CopiesTest, AnAbandonedCopyIsGoodEnoughWhileNothingIsTaken) {
  StartTwoTiers(2);
  Create(4, 1);
  RunOp({Write(0)});
  RunOp({Read(1)});
  RunOp({Read(2)});
  ASSERT_FALSE(Resident(0, 0));
  RunOp({Write(1)});
  FailCopiesTo(1, FailureKind::kTargetFull);
  const TicketNumber both = Acquire({Read(2), Read(3)});
  EXPECT_EQ(Select<FenceTier>(driver().Drain()).size(), 1u);
  EXPECT_EQ(FailureOf(both).reason, TicketFailure::kTierFull);
  AbandonAll();
  RunOp({Read(0)});
  RunOp({Read(2)});
  EXPECT_TRUE(Resident(0, 1) && !Resident(0, 0)) << "the page could not be written elsewhere";
  FailNothing();
  RunOp({Read(2), Read(3)});  // the tier is asked again
  RunOp({Read(0)});
  RunOp({Read(1)});
  EXPECT_GE(CopiesOut(RunOp({Read(2), Read(3)})), 1u) << "the page is written elsewhere";
  RunOp({Read(0), Read(1)});
  EXPECT_EQ(CopiesOut(RunOp({Read(2), Read(3)})), 0u);
}

/// A policy that thinks a page free to leave is asked for pages to write and does not name it.
TEST_F(CopiesTest, ThePolicyIsToldThatAnAbandonedCopyIsNotEnoughAnyMore) {
  std::vector<std::string> log;
  Start({.frames = {5, 64},
         .policy = "lru",
         .policy_log = &log,
         .copies_in_flight_max = 8,
         .clean_share = 1});
  Create(5, 1);
  const FrameIndex first = Select<StartCopy>(RunOp({Write(0)})).front().target_frame;
  const TicketNumber reader = Acquire({Read(0)});
  const TicketNumber writer = Acquire({Write(1), Write(2), Write(3), Write(4)});
  driver().Drain();
  ASSERT_TRUE(Granted(reader) && Granted(writer));
  Release(writer);
  const std::vector<StartCopy> cleaning = Select<StartCopy>(actions());
  ASSERT_EQ(cleaning.size(), 4u);
  driver().Send(AbandonCopies{{first}});
  driver().Failed(cleaning[0].task, FailureKind::kTargetFull);
  driver().Failed(cleaning[1].task, FailureKind::kTargetFull);
  const auto fences = driver().Failed(cleaning[2].task, FailureKind::kTargetFull);
  ASSERT_EQ(Select<FenceTier>(fences).size(), 1u);
  log.clear();
  Release(reader);
  EXPECT_THAT(log, Contains("insert 0:0 free")) << "the page has nowhere else to go";
  log.clear();
  const auto again = driver().Done(cleaning[3].task);  // the tier takes pages again
  EXPECT_THAT(log, Contains("change 0:0"));
  EXPECT_THAT(Select<StartCopy>(again), Contains(Field(&StartCopy::page, 0u)));
}

}  // namespace
}  // namespace sluice::core
