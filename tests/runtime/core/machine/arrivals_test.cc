#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {
namespace {

constexpr PageIndex kPages = 4;

/// Pages that are in the middle tier, and are wanted in the fastest one.
class CoreArrivalsTest : public CoreFixture {
 protected:
  void SetUp() override {
    Start({});
    Create(kPages, 2);
    for (PageIndex page = 0; page < kPages; ++page) RunOp({Overwrite(page, 1)});
  }

  /// The copy that the last Acquire began.
  TaskNumber CopyBegun() {
    const auto copies = Select<StartCopy>(actions());
    EXPECT_EQ(copies.size(), 1u);
    return copies.empty() ? 0 : copies.front().task;
  }
  TicketNumber AcquireUnderWay(PageRequest request, TaskNumber* task) {
    const TicketNumber ticket = Acquire({request});
    *task = CopyBegun();
    driver().Send(GrantUnderWay{ticket});
    EXPECT_FALSE(Granted(ticket)) << "its bytes are not under way";
    driver().Send(TaskUnderWay{*task});
    return ticket;
  }
};

TEST_F(CoreArrivalsTest, ATicketIsGrantedOnceItsPagesAreUnderWay) {
  TaskNumber task = 0;
  const TicketNumber ticket = AcquireUnderWay(Mapped(Read(0)), &task);
  EXPECT_TRUE(Granted(ticket));
  driver().Done(task);
  Release(ticket);
}

TEST_F(CoreArrivalsTest, AnotherTicketOfThePageWaitsUntilItHasArrived) {
  TaskNumber task = 0;
  const TicketNumber early = AcquireUnderWay(Read(0), &task);
  const TicketNumber late = Acquire({Read(0)});
  EXPECT_TRUE(Granted(early));
  EXPECT_FALSE(Granted(late));
  driver().Done(task);
  EXPECT_TRUE(Granted(late));
}

TEST_F(CoreArrivalsTest, ATicketWithOnePageThatIsNotUnderWayWaits) {
  const TicketNumber ticket = Acquire({Read(0), Read(1)});
  const auto copies = Select<StartCopy>(actions());
  ASSERT_EQ(copies.size(), 2u);
  driver().Send(GrantUnderWay{ticket});
  driver().Send(TaskUnderWay{copies[0].task});
  EXPECT_FALSE(Granted(ticket));
  driver().Send(TaskUnderWay{copies[1].task});
  EXPECT_TRUE(Granted(ticket));
}

TEST_F(CoreArrivalsTest, AReleaseTakesEffectOnceThePageHasArrived) {
  TaskNumber task = 0;
  const TicketNumber ticket = AcquireUnderWay(Read(0), &task);
  Release(ticket);
  EXPECT_EQ(driver().core().pinned_pages(), 1u);
  driver().Done(task);
  EXPECT_EQ(driver().core().pinned_pages(), 0u);
}

TEST_F(CoreArrivalsTest, AWrittenPageLosesItsOtherCopiesWhenItArrives) {
  TaskNumber task = 0;
  const TicketNumber ticket = AcquireUnderWay(Write(0), &task);
  ASSERT_TRUE(Granted(ticket));
  EXPECT_TRUE(Resident(0, 1)) << "the copy reads it";
  Release(ticket);
  const std::vector<Action> arrived = driver().Done(task);
  EXPECT_EQ(Select<DropFrame>(arrived).size(), 1u);
  EXPECT_FALSE(Resident(0, 1));
  RunOp({Read(0)});  // the model compares
}

TEST_F(CoreArrivalsTest, APageThatDoesNotArriveUnderAReadLeaseComesAgain) {
  TaskNumber task = 0;
  const TicketNumber ticket = AcquireUnderWay(Mapped(Read(0)), &task);
  driver().Failed(task, FailureKind::kTargetFailed);
  const TicketNumber again = Acquire({Read(0)});
  EXPECT_TRUE(Select<StartCopy>(actions()).empty()) << "the lease keeps the frame";
  Release(ticket);
  driver().Drain();
  EXPECT_TRUE(Granted(again));
}

TEST_F(CoreArrivalsTest, APageThatDoesNotArriveUnderAWriteLeaseIsLost) {
  for (const bool released : {false, true}) {
    const PageIndex page = released ? 1 : 0;
    TaskNumber task = 0;
    const TicketNumber ticket = AcquireUnderWay(Write(page), &task);
    if (released) Release(ticket);
    const std::vector<Action> failed = driver().Failed(task, FailureKind::kTargetFailed);
    EXPECT_EQ(Select<LosePage>(failed).size(), 1u) << "the written content is nowhere";
    if (!released) Release(ticket);
    const TicketNumber reads = Acquire({Read(page)});
    EXPECT_EQ(FailureOf(reads).reason, TicketFailure::kPageLost);
    RunOp({Overwrite(page)});
  }
}

TEST_F(CoreArrivalsTest, ADiscardAfterTheLeaseComesFirst) {
  TaskNumber task = 0;
  const TicketNumber ticket = AcquireUnderWay(Write(0), &task);
  driver().Send(DiscardPages{0, 1});
  Release(ticket);
  EXPECT_TRUE(Select<LosePage>(driver().Failed(task, FailureKind::kTargetFailed)).empty());
  RunOp({Read(0)});
}

TEST_F(CoreArrivalsTest, ZerosAreUnderWayAsCopiesAre) {
  Create(1, 2, kPages);
  const TicketNumber ticket = Acquire({Write(kPages)});
  const auto fills = Select<StartFill>(actions());
  ASSERT_EQ(fills.size(), 1u);
  driver().Send(TaskUnderWay{fills.front().task});
  EXPECT_FALSE(Granted(ticket)) << "the ticket does not take pages under way";
  driver().Send(GrantUnderWay{ticket});
  EXPECT_TRUE(Granted(ticket));
  driver().Done(fills.front().task);
  Release(ticket);
  RunOp({Read(kPages)});
}

}  // namespace
}  // namespace sluice::core
