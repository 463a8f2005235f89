#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {
namespace {

/// Page-outs that began when nobody waited for them, and that somebody waits for now.
class HasteningTest : public CoreFixture {
 protected:
  /// Makes two tiers, and fills the `fast` frames of the first with written pages. Returns the
  /// tasks that clean them, in the order of their start.
  std::vector<StartCopy> CleanAll(FrameIndex fast) {
    Start({.frames = {fast, 64}, .policy = "lru", .copies_in_flight_max = 16, .clean_share = 1});
    Create(16, 1);
    std::vector<PageRequest> requests;
    for (PageIndex page = 0; page < fast; ++page) requests.push_back(Write(page));
    const TicketNumber ticket = Acquire(requests);
    driver().Drain();
    EXPECT_TRUE(Granted(ticket));
    Release(ticket);
    std::vector<StartCopy> cleaning = Select<StartCopy>(actions());
    EXPECT_EQ(cleaning.size(), fast);
    for (const StartCopy& copy : cleaning) EXPECT_FALSE(copy.urgent);
    return cleaning;
  }
  /// The tasks that are hastened among `actions`.
  static std::vector<TaskNumber> Hastened(const std::vector<Action>& actions) {
    std::vector<TaskNumber> tasks;
    for (const HastenCopy& order : Select<HastenCopy>(actions)) tasks.push_back(order.task);
    return tasks;
  }
  using Tasks = std::vector<TaskNumber>;
};

TEST_F(HasteningTest, ATicketThatLacksAFrameHastensOnePageOut) {
  const std::vector<StartCopy> cleaning = CleanAll(4);
  const TicketNumber ticket = Acquire({Read(4)});
  ASSERT_EQ(Hastened(actions()), Tasks{cleaning[0].task}) << "the oldest";
  EXPECT_EQ(Select<HastenCopy>(actions())[0].target_frame, cleaning[0].target_frame);
  driver().Done(cleaning[0].task);
  driver().Drain();
  EXPECT_TRUE(Granted(ticket));
  driver().CheckReplay();
}

TEST_F(HasteningTest, OnePageOutPerWantedFrameIsHastenedOnce) {
  const std::vector<StartCopy> cleaning = CleanAll(4);
  Acquire({Read(4), Read(5)}, 0, 1);
  EXPECT_EQ(Hastened(actions()), (Tasks{cleaning[0].task, cleaning[1].task}));
  EXPECT_TRUE(Hastened(driver().Send(PrefetchPages{{Read(9)}})).empty()) << "an event again";
  Acquire({Read(6)}, 0, 2);
  EXPECT_EQ(Hastened(actions()), Tasks{cleaning[2].task});
  // The first ticket takes the frame. The page-outs that the others wait for are hastened already.
  EXPECT_TRUE(Hastened(driver().Done(cleaning[0].task)).empty());
  driver().Drain();
  driver().CheckReplay();
}

TEST_F(HasteningTest, AWriterHastensTheCopiesOfItsPageAlone) {
  const std::vector<StartCopy> cleaning = CleanAll(4);
  const TicketNumber reader = Acquire({Read(cleaning[3].page)}, 0, 1);
  EXPECT_TRUE(Granted(reader)) << "pages are readable while they are cleaned";
  EXPECT_TRUE(Hastened(actions()).empty());
  const TicketNumber writer = Acquire({Write(cleaning[2].page)}, 0, 2);
  EXPECT_FALSE(Granted(writer));
  EXPECT_EQ(Hastened(actions()), Tasks{cleaning[2].task});
  Acquire({Overwrite(cleaning[1].page)}, 0, 3);
  EXPECT_EQ(Hastened(actions()), Tasks{cleaning[1].task});
  // A writer behind a reader hastens nothing before its turn comes.
  Acquire({Write(cleaning[3].page)}, 0, 4);
  EXPECT_TRUE(Hastened(actions()).empty());
  Release(reader);
  EXPECT_EQ(Hastened(actions()), Tasks{cleaning[3].task});
  driver().Drain();
  driver().CheckReplay();
}

TEST_F(HasteningTest, NobodyHastensWhileThereIsAnotherFrame) {
  std::vector<StartCopy> cleaning = CleanAll(4);
  driver().Done(cleaning[3].task);  // clean: it leaves for nothing
  const TicketNumber ticket = Acquire({Read(4)});
  EXPECT_TRUE(Hastened(actions()).empty());
  driver().Done(Select<StartFill>(actions())[0].task);
  EXPECT_TRUE(Granted(ticket));
}

TEST_F(HasteningTest, APageThatStaysIsNotHastened) {
  const std::vector<StartCopy> cleaning = CleanAll(2);
  const TicketNumber reader = Acquire({Read(cleaning[0].page)}, 0, 1);
  ASSERT_TRUE(Granted(reader));
  Acquire({Read(4)}, 0, 2);
  EXPECT_EQ(Hastened(actions()), Tasks{cleaning[1].task}) << "the other one is leased";
  driver().Drain();
}

TEST_F(HasteningTest, AFetchAheadHastensNothing) {
  CleanAll(4);
  EXPECT_TRUE(Hastened(driver().Send(PrefetchPages{{Read(4)}})).empty());
  driver().Drain();
}

TEST_F(HasteningTest, APageOutAheadOfNeedBecomesUrgent) {
  // A hint displaces page 0; then a ticket wants that room.
  Start({.frames = {1, 64}, .policy = "lru"});
  Create({.segment = 9, .first_page = 0, .pages = 4, .lowest = 1});
  RunOp({Write(1)});
  RunOp({Write(0)});
  const auto ahead = Select<StartCopy>(driver().Send(PrefetchPages{{Read(1)}}));
  ASSERT_EQ(ahead.size(), 1u);
  ASSERT_EQ(ahead[0].page, 0u);
  ASSERT_FALSE(ahead[0].urgent);
  const TicketNumber ticket = Acquire({Read(2)});
  EXPECT_EQ(Hastened(actions()), Tasks{ahead[0].task});
  driver().Drain();
  EXPECT_TRUE(Granted(ticket));
}

}  // namespace
}  // namespace sluice::core
