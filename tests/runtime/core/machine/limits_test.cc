#include <algorithm>
#include <set>

#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {
namespace {

/// Requests that do not fit, deadlocks, and budgets that change.
class LimitsTest : public CoreFixture {
 protected:
  void SetUp() override { Start({.frames = {4, 64}, .policy = "lru"}); }

  std::vector<PageRequest> Writes(PageIndex first, PageIndex count) {
    std::vector<PageRequest> requests;
    for (PageIndex page = first; page < first + count; ++page) requests.push_back(Write(page));
    return requests;
  }
};

TEST_F(LimitsTest, CreateRefusesTiersThatCannotWork) {
  DriverOptions options{.frames = {4}};
  EXPECT_EQ(Core::Create(CoreOptionsOf(options)).status().code(),
            absl::StatusCode::kInvalidArgument);
  options = {.frames = {4, 4, 64}, .transit_frames = 2};
  EXPECT_EQ(Core::Create(CoreOptionsOf(options)).status().code(),
            absl::StatusCode::kInvalidArgument);
  options = {.frames = {4, 5, 64}, .transit_frames = 2};
  EXPECT_TRUE(Core::Create(CoreOptionsOf(options)).ok());
  CoreOptions no_policy = CoreOptionsOf(options);
  no_policy.policy = nullptr;
  EXPECT_EQ(Core::Create(no_policy).status().code(), absl::StatusCode::kInvalidArgument);
  const auto unknown = CreatePolicy("mru");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().ToString().find("lru"), std::string::npos);
}

TEST_F(LimitsTest, TooLargeAnOpFailsWithPagesAndLimit) {
  Create(8, 1);
  const TicketNumber fits = Acquire(Writes(0, 4));
  driver().Drain();
  EXPECT_TRUE(Granted(fits));
  Release(fits);
  const TicketNumber large = Acquire(Writes(0, 5));
  const FailTicket failure = FailureOf(large);
  EXPECT_EQ(failure.reason, TicketFailure::kTooLarge);
  EXPECT_EQ(failure.tier, 0);
  EXPECT_EQ(failure.pages, 5u);
  EXPECT_EQ(failure.limit, 4u);
}

TEST_F(LimitsTest, OpsThatHoldAndWaitForEachOtherAreTold) {
  Create(8, 1);
  const TicketNumber first = Acquire(Writes(0, 2), 1, 1);
  const TicketNumber second = Acquire(Writes(2, 2), 2, 2);
  driver().Drain();
  ASSERT_TRUE(Granted(first) && Granted(second));
  const TicketNumber more = Acquire(Writes(4, 2), 1, 1);
  driver().Drain();
  EXPECT_TRUE(Open(more)) << "op 2 runs and will release";
  const TicketNumber too = Acquire(Writes(6, 2), 2, 2);
  driver().Drain();
  EXPECT_EQ(driver().failure_count(TicketFailure::kWouldDeadlock), 1u);
  const TicketNumber failed = Open(more) ? too : more;
  EXPECT_EQ(FailureOf(failed).reason, TicketFailure::kWouldDeadlock);
  Release(failed == too ? second : first);  // the one that was told backs off
  driver().Drain();
  EXPECT_TRUE(Granted(failed == too ? more : too));
}

TEST_F(LimitsTest, CrossedWritesAreADeadlockToo) {
  Create(2, 1);
  const TicketNumber first = Acquire({Write(0)}, 1);
  const TicketNumber second = Acquire({Write(1)}, 2);
  driver().Drain();
  ASSERT_TRUE(Granted(first) && Granted(second));
  Acquire({Write(1)}, 1);
  Acquire({Write(0)}, 2);
  EXPECT_EQ(driver().failure_count(TicketFailure::kWouldDeadlock), 1u);
}

TEST_F(LimitsTest, OpThatWaitsForItselfIsTold) {
  Create(1, 1);
  const TicketNumber reads = Acquire({Read(0)}, 1);
  driver().Drain();
  ASSERT_TRUE(Granted(reads));
  const TicketNumber writes = Acquire({Write(0)}, 1);
  EXPECT_EQ(FailureOf(writes).reason, TicketFailure::kWouldDeadlock);
}

TEST_F(LimitsTest, OpsOfOneLaneAreGrantedInOrder) {
  Create(8, 1);
  const TicketNumber holder = Acquire(Writes(0, 1), 1, 1);
  driver().Drain();
  const TicketNumber waiting = Acquire({Read(0)}, 2, 2);
  const TicketNumber next = Acquire({Write(1)}, 3, 2);
  const TicketNumber elsewhere = Acquire({Write(2)}, 4, 3);
  driver().Drain();
  EXPECT_TRUE(Open(waiting) && Open(next)) << "the pages are there, the turn has not come";
  EXPECT_TRUE(Granted(elsewhere)) << "other lanes go on";
  Release(holder);
  driver().Drain();
  EXPECT_TRUE(Granted(waiting) && Granted(next));
}

TEST_F(LimitsTest, OpThatAsksAgainAfterTheNextOfItsLaneHoldsItsPagesIsTold) {
  Create(8, 1);
  const TicketNumber runs = Acquire(Writes(0, 2), 1, 1);
  const TicketNumber next = Acquire(Writes(2, 2), 2, 1);
  driver().Drain();
  ASSERT_TRUE(Granted(runs) && Granted(next));
  const TicketNumber more = Acquire(Writes(4, 1), 1, 1);
  EXPECT_EQ(FailureOf(more).reason, TicketFailure::kWouldDeadlock);
}

/// The outer op holds its pages until the inner one is over.
TEST_F(LimitsTest, ANestedOpThatNeedsWhatTheOuterOneHoldsIsTold) {
  Create(8, 1);
  const TicketNumber outer = AcquireNested(Writes(0, 2), 1, 1);
  driver().Drain();
  ASSERT_TRUE(Granted(outer));
  const TicketNumber inner = AcquireNested({Write(0)}, 2, 1);
  driver().Drain();
  EXPECT_EQ(FailureOf(inner).reason, TicketFailure::kWouldDeadlock) << "the page";
  const TicketNumber large = AcquireNested(Writes(2, 3), 3, 1);
  driver().Drain();
  EXPECT_EQ(FailureOf(large).reason, TicketFailure::kWouldDeadlock) << "the room";
  const TicketNumber fits = AcquireNested(Writes(2, 2), 4, 1);
  driver().Drain();
  EXPECT_TRUE(Granted(fits));
}

TEST_F(LimitsTest, NestedOpsThatTakePagesInOppositeOrderAreTold) {
  Create(8, 1);
  const TicketNumber one = AcquireNested({Write(0)}, 1, 1);
  const TicketNumber other = AcquireNested({Write(1)}, 2, 2);
  driver().Drain();
  ASSERT_TRUE(Granted(one) && Granted(other));
  const TicketNumber waits = AcquireNested({Write(1)}, 3, 1);
  driver().Drain();
  EXPECT_TRUE(Open(waits)) << "the other lane runs";
  const TicketNumber told = AcquireNested({Write(0)}, 4, 2);
  driver().Drain();
  EXPECT_EQ(FailureOf(told).reason, TicketFailure::kWouldDeadlock);
  Release(other);
  driver().Drain();
  EXPECT_TRUE(Granted(waits));
}

/// A writer that waits for the outer reader would wait for the inner one, too, and it for the
/// writer.
TEST_F(LimitsTest, AReaderWithinAReaderGoesBeforeAWriter) {
  Create(2, 1);
  const TicketNumber outer = AcquireNested({Read(0)}, 1, 1);
  driver().Drain();
  ASSERT_TRUE(Granted(outer));
  const TicketNumber writer = AcquireNested({Write(0)}, 2, 2);
  const TicketNumber other = AcquireNested({Read(0)}, 3, 3);
  const TicketNumber inner = AcquireNested({Read(0), Read(1)}, 4, 1);
  driver().Drain();
  EXPECT_TRUE(Granted(inner));
  EXPECT_TRUE(Open(other)) << "a reader of another lane comes after the writer";
  Release(outer);
  driver().Drain();
  EXPECT_TRUE(Open(writer)) << "the inner reader holds the page";
  Release(inner);
  driver().Drain();
  EXPECT_TRUE(Granted(writer));
}

TEST_F(LimitsTest, AReaderWithinAReaderComesAfterADiscard) {
  Create(2, 1);
  RunOp({Write(0)});
  const TicketNumber outer = AcquireNested({Read(0)}, 1, 1);
  driver().Drain();
  ASSERT_TRUE(Granted(outer));
  driver().Send(DiscardPages{0, 1});
  const TicketNumber inner = AcquireNested({Read(0)}, 2, 1);
  driver().Drain();
  EXPECT_EQ(FailureOf(inner).reason, TicketFailure::kWouldDeadlock);
}

/// Another thread may give back what the holder has, and let the lane go on.
TEST_F(LimitsTest, AnOpWithinOneThatIsNotNestedWaits) {
  Create(8, 1);
  const TicketNumber holder = Acquire(Writes(0, 3), 1, 1);
  driver().Drain();
  const TicketNumber next = AcquireNested(Writes(3, 3), 2, 1);
  driver().Drain();
  EXPECT_TRUE(Open(next));
  Release(holder);
  driver().Drain();
  EXPECT_TRUE(Granted(next));
}

TEST_F(LimitsTest, AnOpOfALaneThatIsNotNestedWaits) {
  Create(8, 1);
  const TicketNumber holder = Acquire({Write(0)}, 1, 1);
  driver().Drain();
  const TicketNumber next = Acquire({Write(0)}, 2, 1);
  driver().Drain();
  EXPECT_TRUE(Open(next));
  Release(holder);
  driver().Drain();
  EXPECT_TRUE(Granted(next));
}

TEST_F(LimitsTest, WaitingOpThatHoldsNothingIsNoDeadlock) {
  Create(8, 1);
  const TicketNumber holder = Acquire(Writes(0, 4), 1);
  driver().Drain();
  const TicketNumber waiting = Acquire(Writes(4, 4), 2);
  driver().Drain();
  EXPECT_TRUE(Open(waiting));
  Release(holder);
  driver().Drain();
  EXPECT_TRUE(Granted(waiting));
}

TEST_F(LimitsTest, ReservationTakesFramesOutOfPaging) {
  Create(8, 1);
  const TicketNumber all = Acquire(Writes(0, 4));
  driver().Drain();
  Release(all);
  driver().Send(ReserveFrames{.reservation = 1, .tier = 0, .frames = 2});
  driver().Drain();
  std::set<FrameIndex> frames;
  for (const Action& answer : driver().answers()) {
    const auto* reserved = std::get_if<FramesReserved>(&answer);
    if (reserved != nullptr) frames.insert(reserved->frames.begin(), reserved->frames.end());
  }
  EXPECT_EQ(frames.size(), 2u);
  EXPECT_EQ(driver().core().op_frames_max(0), 2u);
  EXPECT_EQ(FailureOf(Acquire(Writes(0, 3))).reason, TicketFailure::kTooLarge);
  RunOp(Writes(0, 2));
  driver().Send(ReleaseFrames{1});
  RunOp(Writes(0, 4));
}

TEST_F(LimitsTest, AHolderThatGoesOnIsNotHeldUpByWhoWaitsForItsLease) {
  Start({.frames = {4, 16, 64}, .policy = "lru"});
  Create(32, 2);
  for (PageIndex page = 0; page < 32; ++page) RunOp({Write(page)});
  const TicketNumber holder = Acquire({Write(0)}, 1, 0);
  driver().Drain();
  const TicketNumber waiting = Acquire({Read(0)}, 2, 1);
  for (ReservationNumber round = 1; round <= 100; ++round) {  // hundreds of tasks, no grant
    driver().Send(ReserveFrames{.reservation = round, .tier = 0, .frames = 3});
    driver().Drain();
    const auto answers = driver().answers();
    ASSERT_TRUE(std::any_of(answers.begin(),
                            answers.end(),
                            [round](const Action& answer) {
                              const auto* reserved = std::get_if<FramesReserved>(&answer);
                              return reserved != nullptr && reserved->reservation == round;
                            }))
        << "round " << round;
    driver().Send(ReleaseFrames{round});
    const auto first = static_cast<PageIndex>(1 + 3 * (round % 10));
    driver().Send(PrefetchPages{{Read(first), Read(first + 1), Read(first + 2)}});
    driver().Drain();
  }
  const TicketNumber second = Acquire({Read(29)}, 1, 0);
  driver().Drain();
  EXPECT_TRUE(Granted(second));
  Release(second);
  Release(holder);
  driver().Drain();
  EXPECT_TRUE(Granted(waiting));
}

TEST_F(LimitsTest, ReservationOfMoreThanThereIsIsRefused) {
  const auto actions = driver().Send(ReserveFrames{.reservation = 1, .tier = 0, .frames = 5});
  EXPECT_EQ(Select<ReservationRefused>(actions).size(), 1u);
}

TEST_F(LimitsTest, BudgetIsLoweredOnceTheFramesAreVacated) {
  Create(8, 1);
  const TicketNumber all = Acquire(Writes(0, 4));
  driver().Drain();
  Release(all);
  const auto asked = driver().Send(SetBudget{.tier = 0, .frames = 2});
  EXPECT_TRUE(Select<BudgetSet>(asked).empty()) << "dirty pages have to leave first";
  const auto answered = Select<BudgetSet>(driver().Drain());
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_EQ(answered[0].frames, 2u);
  EXPECT_EQ(driver().core().op_frames_max(0), 2u);
  RunOp(Writes(4, 2));
  EXPECT_LE(driver().core().tier(0).used, 2u);
  driver().Send(SetBudget{.tier = 0, .frames = 4});
  RunOp(Writes(4, 4));
}

TEST_F(LimitsTest, LoweredBudgetLeavesRoomForReservationsAndForWhatMayNotGoLower) {
  Start({.frames = {4, 16, 64}, .policy = "lru"});
  Create(2, 1);
  const FrameIndex frames = driver().frames().limit(1);
  const FrameIndex transit = frames - driver().core().op_frames_max(1);
  driver().Send(ReserveFrames{.reservation = 1, .tier = 1, .frames = 2});
  driver().Drain();
  const FrameIndex least = 2 + 2 + transit + 1;
  ASSERT_GT(frames, least) << "the fixture's tier is large enough to be lowered to the least";
  EXPECT_EQ(Select<BudgetRefused>(driver().Send(SetBudget{.tier = 1, .frames = least - 1})).size(),
            1u);
  EXPECT_TRUE(Select<BudgetRefused>(driver().Send(SetBudget{.tier = 1, .frames = least})).empty());
  driver().Drain();
}

TEST_F(LimitsTest, LoweredBudgetWaitsForLeases) {
  Create(8, 1);
  const TicketNumber low = Acquire(Writes(0, 2), 1);
  driver().Drain();
  Release(low);
  driver().Send(DiscardPages{0, 2});
  driver().Send(FreePages{0, 2});
  const TicketNumber high = Acquire(Writes(2, 2), 1);
  driver().Drain();
  const FrameIndex highest =
      std::max(driver().ticket(high).frames[0], driver().ticket(high).frames[1]);
  const auto asked = driver().Send(SetBudget{.tier = 0, .frames = highest});
  if (!Select<BudgetRefused>(asked).empty()) return;  // no room for what is pinned
  EXPECT_TRUE(Select<BudgetSet>(driver().Drain()).empty());
  Release(high);
  std::vector<Action> after = actions();
  Append(driver().Drain(), &after);
  EXPECT_EQ(Select<BudgetSet>(after).size(), 1u);
}

TEST_F(LimitsTest, TicketThatNoLongerFitsIsTooLarge) {
  Create(8, 1);
  const TicketNumber holder = Acquire({Write(0)}, 1);
  driver().Drain();
  const TicketNumber waiting = Acquire(Writes(4, 4), 2);
  driver().Drain();
  ASSERT_TRUE(Open(waiting));
  driver().Send(SetBudget{.tier = 0, .frames = 3});
  Release(holder);
  driver().Drain();
  const FailTicket failure = FailureOf(waiting);
  EXPECT_EQ(failure.reason, TicketFailure::kTooLarge);
  EXPECT_EQ(failure.pages, 4u);
  EXPECT_EQ(failure.limit, 3u);
}

TEST_F(LimitsTest, SameEventsGiveTheSameActions) {
  Create(8, 1);
  for (PageIndex page = 0; page < 8; ++page) RunOp(Writes(page % 5, 3));
  driver().CheckReplay();
  EXPECT_TRUE(driver().verdict().ok()) << driver().Report();
}

}  // namespace
}  // namespace sluice::core
