#include "gmock/gmock.h"
#include "runtime/core/waits.h"
#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {
namespace {

using ::testing::IsEmpty;

/// Causes of tickets' waits, and their times by the driver's clock.
class WaitCausesTest : public CoreFixture {
 protected:
  /// A fast tier of `fast` frames and 16 pages below it, of which the first `written` are written
  /// one after another.
  void StartWith(FrameIndex fast, PageIndex written, double clean_share = 0) {
    Start({.frames = {fast, 64},
           .policy = "lru",
           .copies_in_flight_max = 1,
           .clean_share = clean_share});
    Create(16, 1);
    for (PageIndex page = 0; page < written; ++page) RunOp({Write(page)});
  }
  std::vector<TicketWait> Waits() {
    std::vector<TicketWait> waits;
    driver().core().Waits(&waits);
    return waits;
  }
  WaitFor WaitOf(TicketNumber ticket) {
    for (const TicketWait& wait : Waits()) {
      if (wait.ticket == ticket) return wait.waits_for;
    }
    ADD_FAILURE() << "ticket " << ticket << " does not wait";
    return WaitFor::kRead;
  }
  WaitSplit::Time now() { return WaitSplit::Time(driver().now()); }
  /// A thread waits for the ticket, which is told after every event.
  WaitSplit WaitUntilGranted(TicketNumber ticket) {
    WaitSplit split;
    split.Begin(now());
    while (!Granted(ticket)) {
      split.Change(WaitOf(ticket), now());
      if (!driver().Step().has_value()) break;
    }
    split.End(now());
    EXPECT_TRUE(Granted(ticket));
    return split;
  }
};

TEST_F(WaitCausesTest, APageThatIsFetchedIsWaitedForAsARead) {
  StartWith(4, 5);  // page 0 had to leave
  driver().Send(DiscardPages{1, 1});
  const WaitSplit::Time begin = now();
  const WaitSplit split = WaitUntilGranted(Acquire({Read(0)}));
  EXPECT_GT(now(), begin);
  EXPECT_EQ(split.of(WaitFor::kRead), now() - begin);
  EXPECT_EQ(split.of(WaitFor::kWrite).count(), 0);
  EXPECT_THAT(Waits(), IsEmpty());
}

TEST_F(WaitCausesTest, AFrameWhosePageIsWrittenFirstIsWaitedForAsAWrite) {
  StartWith(2, 3);
  const WaitSplit::Time begin = now();
  const TicketNumber ticket = Acquire({Read(0)});
  ASSERT_EQ(CopiesOut(actions()), 1U);
  WaitSplit split;
  split.Begin(begin);
  split.Change(WaitOf(ticket), begin);
  driver().Step();  // the page-out ends
  const WaitSplit::Time written = now();
  split.Change(WaitOf(ticket), written);
  driver().Step();
  split.End(now());
  EXPECT_TRUE(Granted(ticket));
  EXPECT_GT(written, begin);
  EXPECT_GT(now(), written);
  EXPECT_EQ(split.of(WaitFor::kWrite), written - begin);
  EXPECT_EQ(split.of(WaitFor::kRead), now() - written);
}

TEST_F(WaitCausesTest, BothTogetherAreTheWait) {
  StartWith(3, 12);
  WaitSplit::Time write{}, read{};
  for (PageIndex page = 0; page < 12; ++page) {
    const WaitSplit::Time begin = now();
    const TicketNumber ticket = Acquire({Write(page), Read((page + 5) % 12)});
    const WaitSplit split = WaitUntilGranted(ticket);
    EXPECT_EQ(split.of(WaitFor::kRead) + split.of(WaitFor::kWrite), now() - begin);
    write += split.of(WaitFor::kWrite);
    read += split.of(WaitFor::kRead);
    Release(ticket);
  }
  EXPECT_GT(write.count(), 0);
  EXPECT_GT(read.count(), 0);
}

TEST_F(WaitCausesTest, AWriterOfAPageThatIsBeingWrittenWaitsForThat) {
  StartWith(4, 0, 1);
  const TicketNumber first = Acquire({Write(0)});
  driver().Drain();
  Release(first);
  ASSERT_EQ(CopiesOut(actions()), 1U) << "the page is cleaned";
  const TicketNumber writer = Acquire({Write(0)});
  EXPECT_EQ(WaitOf(writer), WaitFor::kWrite);
  const WaitSplit split = WaitUntilGranted(writer);
  EXPECT_GT(split.of(WaitFor::kWrite).count(), 0);
  EXPECT_EQ(split.of(WaitFor::kRead).count(), 0);
}

/// Room is of no use while the link takes no further page-in, so the wait counts as one for a read.
TEST_F(WaitCausesTest, AFullLinkInIsARead) {
  StartWith(3, 5, 1);
  driver().Send(DiscardPages{4, 1});
  const TicketNumber writer = Acquire({Write(2), Write(3)});
  ASSERT_TRUE(Granted(writer));
  Release(writer);
  const std::vector<StartCopy> cleaning = Select<StartCopy>(actions());
  ASSERT_EQ(cleaning.size(), 1U);
  const TicketNumber ticket = Acquire({Read(0), Read(1)});
  const std::vector<StartCopy> fetched = Select<StartCopy>(actions());
  ASSERT_EQ(CopiesIn(actions()), 1U) << "one is under way, the other waits for its turn";
  EXPECT_EQ(WaitOf(ticket), WaitFor::kRead);
  driver().Done(fetched.front().task);
  EXPECT_EQ(WaitOf(ticket), WaitFor::kWrite);
  driver().Drain();
  EXPECT_TRUE(Granted(ticket));
}

TEST_F(WaitCausesTest, OnlyTheFirstOfALaneIsToldOf) {
  StartWith(4, 5);
  const TicketNumber first = Acquire({Read(0)}, 0, 1);
  Acquire({Read(6)}, 0, 1);
  const TicketNumber other = Acquire({Read(7)}, 0, 2);
  ASSERT_EQ(Waits().size(), 2U);
  EXPECT_EQ(Waits()[0].ticket, first);
  EXPECT_EQ(Waits()[1].ticket, other);
  driver().Drain();
}

TEST(WaitSplitTest, CountsOnlyWhileSomebodyWaits) {
  using Time = WaitSplit::Time;
  WaitSplit split;
  split.Change(WaitFor::kWrite, Time(5));
  split.Begin(Time(10));
  split.Change(WaitFor::kRead, Time(13));
  split.End(Time(20));
  split.Change(WaitFor::kWrite, Time(40));
  split.Begin(Time(50));
  split.End(Time(51));
  EXPECT_EQ(split.of(WaitFor::kWrite), Time(4));
  EXPECT_EQ(split.of(WaitFor::kRead), Time(7));
}

}  // namespace
}  // namespace sluice::core
