#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {
namespace {

/// Order of service, choice of victims, and use of the recorded iteration.
class SchedulingTest : public CoreFixture {
 protected:
  void StartTwoTiers(FrameIndex fast, const std::string& policy, std::uint32_t prefetch_ops = 0) {
    Start({.frames = {fast, 64}, .policy = policy, .prefetch_ops = prefetch_ops});
  }

  /// Writes every page once, so that later reads have something to fetch.
  void WriteAll(PageIndex pages) {
    for (PageIndex page = 0; page < pages; ++page) RunOp({Write(page)});
  }

  /// One iteration that reads the pages in order; returns the copies in.
  std::size_t ReadInOrder(const std::vector<PageIndex>& pages, KeyIndex key = 0) {
    std::size_t copies = 0;
    copies += CopiesIn(driver().Send(BeginIteration{key}));
    for (std::size_t i = 0; i < pages.size(); ++i) {
      copies += CopiesIn(RunOp({Read(pages[i])}, 0, static_cast<NameIndex>(i)));
    }
    driver().Send(EndIteration{});
    return copies;
  }
};

TEST_F(SchedulingTest, LruEvictsTheLeastRecentlyUsed) {
  StartTwoTiers(3, "lru");
  Create(4, 1);
  WriteAll(4);
  for (const PageIndex page : {0, 1, 2, 0}) RunOp({Read(page)});
  RunOp({Read(3)});
  EXPECT_TRUE(Resident(0, 0));
  EXPECT_FALSE(Resident(1, 0));
  EXPECT_TRUE(Resident(2, 0));
  EXPECT_TRUE(Resident(3, 0));
}

TEST_F(SchedulingTest, MinEvictsTheFurthestNextUse) {
  StartTwoTiers(3, "min");
  Create(4, 1);
  WriteAll(4);
  const std::vector<PageIndex> order = {0, 1, 2, 3, 0, 1, 2, 2};
  ReadInOrder(order);
  ReadInOrder(order);
  driver().Send(BeginIteration{0});
  for (std::size_t i = 0; i < 3; ++i) RunOp({Read(order[i])}, 0, static_cast<NameIndex>(i));
  ASSERT_TRUE(Resident(0, 0) && Resident(1, 0) && Resident(2, 0));
  RunOp({Read(3)}, 0, 3);  // 0 comes next, then 1; 2 is furthest
  EXPECT_TRUE(Resident(0, 0));
  EXPECT_TRUE(Resident(1, 0));
  EXPECT_FALSE(Resident(2, 0));
}

TEST_F(SchedulingTest, MinFetchesWhatMinFetches) {
  // 5 pages in turn in 4 frames: one fetch for every three uses (bound_test.cc), lru fetches all.
  const std::vector<PageIndex> order = {0, 1, 2, 3, 4};
  std::size_t copies[2] = {0, 0};
  for (int k = 0; k < 2; ++k) {
    StartTwoTiers(4, k == 0 ? "min" : "lru");
    Create(5, 1);
    WriteAll(5);
    for (int i = 0; i < 4; ++i) ReadInOrder(order);
    for (int i = 0; i < 12; ++i) copies[k] += ReadInOrder(order);
    EXPECT_TRUE(driver().verdict().ok()) << driver().Report();
  }
  EXPECT_LE(copies[0], 12u * 5 / 3 + 1);
  EXPECT_EQ(copies[1], 12u * 5);
}

TEST_F(SchedulingTest, BeforeAPlanRestoresAheadBeginAsOthersEnd) {
  Start({.frames = {16, 64}, .policy = "planned", .prefetch_ops = 12});
  Create({.segment = 9, .first_page = 0, .pages = 32, .lowest = 1, .file_home = true});
  std::vector<PageIndex> order(32);
  std::iota(order.begin(), order.end(), 0);
  ReadInOrder(order);
  const auto resident = [&] {
    return std::count_if(order.begin(), order.end(), [&](auto page) { return Resident(page, 0); });
  };
  ASSERT_EQ(resident(), 16);
  const std::vector<Action> begun = driver().Send(BeginIteration{0});
  EXPECT_EQ(Select<StartFill>(begun).size(), 3u) << "three of the four copies in flight";
  EXPECT_EQ(resident(), 13) << "no more pages give way than can be read";
  EXPECT_EQ(Select<StartFill>(driver().Drain()).size(), 9u) << "the other ops follow";
}

TEST_F(SchedulingTest, RecordedIterationTurnsMissesIntoHits) {
  StartTwoTiers(4, "min", 2);
  Create(8, 1);
  WriteAll(8);
  const std::vector<PageIndex> order = {0, 1, 2, 3, 4, 5, 6, 7};
  ReadInOrder(order);
  ReadInOrder(order);
  const CoreCounters before = driver().core().counters();
  driver().Send(BeginIteration{0});
  driver().Drain();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const TicketNumber ticket = Acquire({Read(order[i])}, 0, 0, static_cast<NameIndex>(i));
    EXPECT_TRUE(Granted(ticket)) << "op " << i << " waits though its page was known";
    driver().Drain();
    Release(ticket);
    driver().Drain();
  }
  const CoreCounters& after = driver().core().counters();
  EXPECT_GT(after.prefetch_hit, before.prefetch_hit);
  EXPECT_EQ(after.prefetch_late, before.prefetch_late);
}

TEST_F(SchedulingTest, SmallOpsAreLookedAheadForUntilAShareOfALowerTierIsCovered) {
  constexpr PageIndex kPages = 40;
  Start({.frames = {2, 20, 64}, .policy = "lru", .prefetch_ops = 1});
  Create(kPages, 2);
  std::vector<PageIndex> order;
  for (PageIndex page = 0; page < kPages; ++page) {
    RunOp({Write(page, 1)});
    order.push_back(page);
  }
  for (int iteration = 0; iteration < 2; ++iteration) {
    driver().Send(BeginIteration{0});
    for (PageIndex page : order) RunOp({Read(page, 1)}, 0, page);
    driver().Send(EndIteration{});
  }
  driver().Send(BeginIteration{0});
  for (PageIndex page = 0; page < kPages / 2; ++page) RunOp({Read(page, 1)}, 0, page);
  // One op ahead, and twice that for tier 1, would be two pages.
  for (PageIndex page = 20; page < 28; ++page) EXPECT_TRUE(Resident(page, 1)) << page;
  EXPECT_FALSE(Resident(32, 1));
}

TEST_F(SchedulingTest, APrefetchThatCrossesTwoLinksIsOne) {
  Start({.frames = {4, 6, 64}, .policy = "min", .prefetch_ops = 2});
  constexpr PageIndex kPages = 12;
  Create(kPages, 2);
  for (PageIndex page = 0; page < kPages; ++page) RunOp({Write(page)});
  const auto read_all = [&] {
    driver().Send(BeginIteration{0});
    for (PageIndex page = 0; page < kPages; ++page) RunOp({Read(page)}, 0, page);
    driver().Send(EndIteration{});
    driver().Drain();
  };
  read_all();
  read_all();
  const CoreCounters before = driver().core().counters();
  read_all();
  const CoreCounters& after = driver().core().counters();
  const std::uint64_t issued = after.prefetch_issued - before.prefetch_issued;
  EXPECT_GT(after.prefetch_hit, before.prefetch_hit);
  // Every page is used once: a second prefetch of it could not be used.
  EXPECT_LE(issued,
            kPages + after.prefetch_revoked + after.prefetch_wasted - before.prefetch_revoked -
                before.prefetch_wasted);
  EXPECT_LE(after.prefetch_open, 6u + 4u);
  EXPECT_EQ(after.prefetch_issued,
            after.prefetch_hit + after.prefetch_late + after.prefetch_revoked +
                after.prefetch_wasted + after.prefetch_open);
}

TEST_F(SchedulingTest, HintsWithoutAFrameAreCountedAsWaiting) {
  Start({.frames = {4, 32, 64}});
  constexpr PageIndex kPages = 10;
  Create(kPages, 1);
  for (PageIndex page = 0; page < kPages; ++page) RunOp({Write(page, 1)});
  PrefetchPages hint;
  for (PageIndex page = 0; page < kPages; ++page) hint.requests.push_back(Read(page));
  driver().Send(std::move(hint));
  const CoreCounters& counters = driver().core().counters();
  EXPECT_EQ(counters.prefetch_open + counters.prefetch_waiting, kPages);
  driver().Drain();
  EXPECT_EQ(driver().core().counters().prefetch_open, 4u);
  EXPECT_EQ(driver().core().counters().prefetch_waiting, 6u) << "no hint displaces another";
}

TEST_F(SchedulingTest, KeysHaveSchedulesOfTheirOwn) {
  StartTwoTiers(4, "min", 2);
  Create(8, 1);
  WriteAll(8);
  for (int i = 0; i < 3; ++i) {
    ReadInOrder({0, 1, 2, 3, 4, 5, 6, 7}, 0);
    ReadInOrder({7, 5, 3, 1}, 1);
  }
  EXPECT_EQ(driver().core().counters().divergences, 0u);
  ReadInOrder({0, 1, 6}, 0);
  EXPECT_EQ(driver().core().counters().divergences, 1u);
}

TEST_F(SchedulingTest, DeadPagesLeaveBeforeAnyCopyIsMade) {
  StartTwoTiers(2, "min");
  Create(4, 1);
  RunOp({Write(0)});
  RunOp({Write(1)});
  driver().Send(DiscardPages{0, 1});
  EXPECT_EQ(CopiesOut(RunOp({Write(2)})), 0u);
  EXPECT_TRUE(Resident(1, 0));
}

TEST_F(SchedulingTest, ConflictingRequestsAreServedInTheOrderOfArrival) {
  StartTwoTiers(2, "lru");
  Create(1, 1);
  RunOp({Write(0)});
  const TicketNumber first = Acquire({Read(0)});
  const TicketNumber second = Acquire({Read(0)});
  EXPECT_TRUE(Granted(first));
  EXPECT_TRUE(Granted(second)) << "readers share";
  const TicketNumber writer = Acquire({Write(0)});
  const TicketNumber reader = Acquire({Read(0)});
  EXPECT_TRUE(Open(writer));
  EXPECT_TRUE(Open(reader)) << "a reader does not overtake a writer";
  Release(first);
  EXPECT_TRUE(Open(writer));
  Release(second);
  EXPECT_TRUE(Granted(writer));
  EXPECT_TRUE(Open(reader));
  Release(writer);
  EXPECT_TRUE(Granted(reader));
}

TEST_F(SchedulingTest, CancelledWriterLetsReadersPass) {
  StartTwoTiers(2, "lru");
  Create(1, 1);
  RunOp({Write(0)});
  const TicketNumber holder = Acquire({Read(0)});
  const TicketNumber writer = Acquire({Write(0)});
  const TicketNumber reader = Acquire({Read(0)});
  EXPECT_TRUE(Open(reader));
  driver().Send(Cancel{writer});
  EXPECT_EQ(FailureOf(writer).reason, TicketFailure::kCancelled);
  EXPECT_TRUE(Granted(reader));
  Release(holder);
}

TEST_F(SchedulingTest, WriteWaitsForACopyInFlight) {
  Start({.frames = {2, 64}, .policy = "lru", .clean_share = 1});
  Create(1, 1);
  const TicketNumber ticket = Acquire({Write(0)});
  driver().Drain();
  Release(ticket);  // the idle link cleans the page
  const auto copies = Select<StartCopy>(actions());
  ASSERT_EQ(copies.size(), 1u);
  const TicketNumber writer = Acquire({Write(0)});
  const TicketNumber reader = Acquire({Read(0)});
  EXPECT_TRUE(Open(writer));
  EXPECT_TRUE(Open(reader));
  driver().Done(copies[0].task);
  EXPECT_TRUE(Granted(writer));
}

TEST_F(SchedulingTest, HeadTicketIsServedFirstAndWhole) {
  // Every later op would fit at once, with one page each. None may take a frame before the head has
  // all. Resident pages may be leased, which takes no frame.
  StartTwoTiers(4, "lru");
  Create(12, 1);
  WriteAll(12);
  const TicketNumber holder = Acquire({Read(0), Read(1), Read(2)});
  driver().Drain();
  ASSERT_TRUE(Granted(holder));
  const TicketNumber head = Acquire({Read(4), Read(5), Read(6), Read(7)});
  std::vector<TicketNumber> later;
  for (const PageIndex page : {3, 8, 9, 10}) later.push_back(Acquire({Read(page)}));
  driver().Drain();
  for (const TicketNumber ticket : later) EXPECT_TRUE(Open(ticket)) << ticket;
  Release(holder);
  driver().Drain();
  EXPECT_TRUE(Granted(head));
  for (const TicketNumber ticket : later) EXPECT_TRUE(Open(ticket)) << ticket;
  Release(head);
  driver().Drain();
  for (const TicketNumber ticket : later) EXPECT_TRUE(Granted(ticket)) << ticket;
}

/// The earlier ticket's overwrite is not even looked at while nothing can leave: its place counts.
TEST_F(SchedulingTest, APageThatMakesRoomForAnEarlierTicketIsNotTakenBack) {
  Start({.frames = {4, 64}, .policy = "lru", .copies_in_flight_max = 1});
  Create(8, 1);
  WriteAll(6);  // 0 and 1 went down
  driver().Send(DiscardPages{2, 1});
  driver().Drain();
  const TicketNumber earlier = Acquire({Read(0), Read(1), Overwrite(6)}, 0, 1);
  const std::vector<StartCopy> started = Select<StartCopy>(actions());
  ASSERT_EQ(started.size(), 2u) << "0 comes, 1 waits for the link, and for 6 another leaves";
  ASSERT_EQ(started[1].page, 3u);
  const TicketNumber later = Acquire({Write(3)}, 0, 2);
  driver().Done(started[1].task);
  EXPECT_FALSE(Resident(3, 0)) << "the frame is the earlier ticket's";
  driver().Drain();
  ASSERT_TRUE(Granted(earlier));
  Release(earlier);
  driver().Drain();
  EXPECT_TRUE(Granted(later));
}

TEST_F(SchedulingTest, HintsNeverKeepATicketFromItsFrames) {
  Start({.frames = {2, 7, 64}, .policy = "lru", .prefetch_ops = 4});
  Create(10, 2);
  WriteAll(10);
  const TicketNumber holder = Acquire({Write(0), Write(1)});
  driver().Drain();
  PrefetchPages hints;
  for (PageIndex page = 2; page < 8; ++page) hints.requests.push_back(Read(page));
  driver().Send(hints);
  driver().Drain();
  const TicketNumber waiting = Acquire({Read(8), Read(9)});
  Release(holder);
  driver().Drain();
  EXPECT_TRUE(Granted(waiting));
}

TEST_F(SchedulingTest, HintsOfLaterUsesKeepThePagesThatAreUsedFirst) {
  struct Case {
    std::string policy;
    PageIndex left;
  };
  for (const auto& [policy, left] : {Case{"min", 1}, Case{"planned", 1}, Case{"lru", 0}}) {
    StartTwoTiers(3, policy);
    Create(8, 1);
    WriteAll(8);
    driver().Send(BeginIteration{0});
    for (const auto& [page, ops_ahead] :
         {std::pair(0u, 4u), std::pair(1u, 8u), std::pair(2u, 4u)}) {
      RunOp({Read(page)}, 0, page);
      driver().Send(PrefetchPages{{Read(page)}, ops_ahead});
    }
    RunOp({Read(3)}, 0, 3);
    for (const PageIndex page : {0u, 1u, 2u}) EXPECT_EQ(Resident(page, 0), page != left) << policy;
    EXPECT_EQ(CopiesIn(driver().Send(PrefetchPages{{Read(7)}, 1})), 0u) << "the page comes later";
  }
}

TEST_F(SchedulingTest, TwoHopPageInPassesATierWhoseFramesAreAllPinned) {
  Start({.frames = {2, 7, 64}, .policy = "lru", .transit_frames = 2});
  Create(12, 2);
  WriteAll(12);
  ASSERT_EQ(driver().core().op_frames_max(1), 3u);
  const TicketNumber middle = Acquire({Read(0, 1), Read(1, 1), Read(2, 1)});
  driver().Drain();
  ASSERT_TRUE(Granted(middle));
  for (PageIndex page = 3; page < 12; ++page) {
    // A write, so that the next one has to page it out through the same tier.
    const auto actions = RunOp({Write(page)});
    EXPECT_GE(CopiesIn(actions), 1u) << page;
  }
  for (FrameIndex i = 0; i < 7; ++i) {
    const SimFrame& frame = driver().frames().frame(1, i);
    EXPECT_TRUE(frame.owner == kNoPage || frame.pins > 0) << "transit frames are given back";
  }
}

TEST_F(SchedulingTest, TransitFramesStayOutOfResidency) {
  Start({.frames = {2, 7, 64}, .policy = "lru", .transit_frames = 2});
  Create(12, 2);
  WriteAll(12);
  for (PageIndex page = 0; page < 12; ++page) {
    RunOp({Read(page, 1)});
    EXPECT_LE(driver().frames().used(1), 3u);
  }
}

TEST_F(SchedulingTest, CopiesPerLinkAndDirectionAreBounded) {
  Start({.frames = {8, 64}, .policy = "lru", .copies_in_flight_max = 2});
  Create(16, 1);
  WriteAll(16);
  const TicketNumber ticket = Acquire({Read(0), Read(1), Read(2), Read(3), Read(4), Read(5)});
  EXPECT_LE(driver().frames().tasks().size(), 4u);  // two in, two out
  driver().Drain();
  EXPECT_TRUE(Granted(ticket));
}

TEST_F(SchedulingTest, CleaningMakesLaterEvictionsFree) {
  Start({.frames = {4, 64}, .policy = "lru", .clean_share = 1});
  Create(8, 1);
  for (PageIndex page = 0; page < 4; ++page) RunOp({Write(page)});
  const std::uint64_t copies = driver().frames().copies_started();
  EXPECT_EQ(copies, 4u) << "all were cleaned while the link was idle";
  for (PageIndex page = 4; page < 8; ++page) EXPECT_EQ(CopiesOut(RunOp({Read(page)})), 0u);
}

}  // namespace
}  // namespace sluice::core
