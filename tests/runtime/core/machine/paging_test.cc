#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {
namespace {

/// Effect of one op on pages, and its cost in copies.
class PagingTest : public CoreFixture {
 protected:
  void StartTwoTiers(FrameIndex fast, FrameIndex slow) {
    Start({.frames = {fast, slow}, .policy = "lru"});
  }
};

TEST_F(PagingTest, ReadOfANeverWrittenPageIsZeroFilled) {
  StartTwoTiers(2, 16);
  Create(1, 1);
  const TicketNumber ticket = Acquire({Read(0)});
  const auto fills = Select<StartFill>(actions());
  ASSERT_EQ(fills.size(), 1u);
  EXPECT_EQ(fills[0].page, 0u);
  EXPECT_EQ(fills[0].tier, 0);
  EXPECT_EQ(fills[0].kind, FillKind::kZero);
  EXPECT_FALSE(Granted(ticket));
  const auto done = driver().Done(fills[0].task);
  ASSERT_EQ(Select<GrantTicket>(done).size(), 1u);
  EXPECT_EQ(Select<GrantTicket>(done)[0].frames, std::vector<FrameIndex>{fills[0].frame});
}

TEST_F(PagingTest, ReadOfAFileHomeFillsFromTheFile) {
  StartTwoTiers(2, 16);
  Create({.segment = 9, .first_page = 0, .pages = 1, .lowest = 1, .file_home = true});
  const auto fills = Select<StartFill>(RunOp({Read(0)}));
  ASSERT_EQ(fills.size(), 1u);
  EXPECT_EQ(fills[0].kind, FillKind::kFile);
}

TEST_F(PagingTest, CleanPageIsDroppedWithoutACopy) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  RunOp({Write(0)});
  RunOp({Read(1)});  // page 0 goes down
  RunOp({Read(0)});  // page 0 comes back, clean now
  const auto actions = RunOp({Read(1)});
  EXPECT_EQ(CopiesOut(actions), 0u);
  const auto drops = Select<DropFrame>(actions);
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].page, 0u);
  EXPECT_EQ(drops[0].tier, 0);
}

TEST_F(PagingTest, APageThatComesBackTakesItsOldFrameIfThatIsFree) {
  Start({.frames = {4, 16, 64}, .policy = "lru"});
  Create(8, 2);
  RunOp({Write(5, 1)});
  RunOp({Write(6, 1)});
  const auto frame_of = [](const std::vector<Action>& actions) {
    const auto copies = Select<StartCopy>(actions);
    return copies.size() == 1 ? copies[0].target_frame : kNoFrame;
  };
  const FrameIndex first = frame_of(RunOp({Mapped(Read(5))}));
  RunOp({Read(6)});
  RunOp({Write(5, 1)});  // the copy of page 5 above is dropped
  RunOp({Write(6, 1)});  // page 6's copy, too, whose frame is the next to be taken
  EXPECT_EQ(frame_of(RunOp({Mapped(Read(5))})), first);
  RunOp({Write(5, 1)});
  for (PageIndex other = 0; other < 4; ++other) RunOp({Write(other)});
  RunOp({Write(0, 1)});
  const FrameIndex second = frame_of(RunOp({Mapped(Read(5))}));
  EXPECT_NE(second, kNoFrame);
}

TEST_F(PagingTest, FilePageIsDroppedAndReadAgain) {
  StartTwoTiers(1, 16);
  Create({.segment = 9, .first_page = 0, .pages = 2, .lowest = 1, .file_home = true});
  RunOp({Read(0)});
  EXPECT_EQ(CopiesOut(RunOp({Read(1)})), 0u);
  const auto fills = Select<StartFill>(RunOp({Read(0)}));
  ASSERT_EQ(fills.size(), 1u);
  EXPECT_EQ(fills[0].kind, FillKind::kFile);
}

TEST_F(PagingTest, WrittenFilePageLivesInAStoreSlot) {
  StartTwoTiers(1, 16);
  Create({.segment = 9, .first_page = 0, .pages = 2, .lowest = 1, .file_home = true});
  RunOp({Write(0)});
  EXPECT_EQ(CopiesOut(RunOp({Read(1)})), 1u);
  const auto back = RunOp({Read(0)});
  EXPECT_EQ(CopiesIn(back), 1u);
  EXPECT_TRUE(Select<StartFill>(back).empty());
}

TEST_F(PagingTest, DirtyVictimIsPagedOutOnce) {
  StartTwoTiers(1, 16);
  Create(3, 1);
  RunOp({Write(0)});
  EXPECT_EQ(CopiesOut(RunOp({Read(1)})), 1u);
  RunOp({Read(0)});
  EXPECT_EQ(CopiesOut(RunOp({Read(2)})), 0u) << "the page has a copy below";
}

TEST_F(PagingTest, CopyFurtherUpDoesNotSpareThePageOut) {
  // Tier 1 has room for two pages beside its transit frames.
  Start({.frames = {3, 4, 16}, .policy = "lru", .transit_frames = 1});
  Create(4, 2);
  RunOp({Write(0, 1)});
  RunOp({Read(0, 0)});  // the page is in tiers 0 and 1 now
  ASSERT_TRUE(Resident(0, 0) && Resident(0, 1));
  RunOp({Write(1, 1)});
  std::vector<Action> actions = RunOp({Write(2, 1)});  // displaces page 0 in tier 1
  const std::vector<StartCopy> copies = Select<StartCopy>(actions);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].page, 0u);
  EXPECT_EQ(copies[0].source, 1);
  EXPECT_TRUE(Resident(0, 0) && Resident(0, 2));
  // The copy of page 0 in tier 0 leaves without a write.
  for (const StartCopy& copy : Select<StartCopy>(RunOp({Write(1, 0), Write(2, 0), Write(3, 0)}))) {
    EXPECT_NE(copy.page, 0u);
  }
}

TEST_F(PagingTest, SlotOfAnOlderGenerationOutlivesTheNewWrite) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  RunOp({Write(0)});
  const auto first = Select<StartCopy>(RunOp({Read(1)}));
  ASSERT_EQ(first.size(), 1u);
  RunOp({Write(0)});
  Acquire({Read(1)});
  const auto second = Select<StartCopy>(actions());
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(second[0].target_frame, first[0].target_frame);
  EXPECT_GT(second[0].generation, first[0].generation);
  EXPECT_TRUE(Select<DropFrame>(actions()).empty()) << "not acknowledged yet";
  bool freed = false;
  for (const DropFrame& drop : Select<DropFrame>(driver().Done(second[0].task))) {
    freed |= drop.tier == 1 && drop.frame == first[0].target_frame;
  }
  EXPECT_TRUE(freed);
}

TEST_F(PagingTest, CopiesThatATicketWaitsForAreUrgent) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  RunOp({Write(0)});
  RunOp({Write(1)});  // page 0 goes down
  const auto both_ways = Select<StartCopy>(RunOp({Read(0)}));
  ASSERT_EQ(both_ways.size(), 2u);
  for (const StartCopy& copy : both_ways) EXPECT_TRUE(copy.urgent) << "to tier " << copy.target;
  StartTwoTiers(1, 16);
  Create(2, 1);
  RunOp({Write(0)});
  RunOp({Read(1)});
  const auto ahead = Select<StartCopy>(driver().Send(PrefetchPages{{Read(0)}}));
  ASSERT_EQ(ahead.size(), 1u);
  EXPECT_FALSE(ahead[0].urgent) << "nobody waits for it";
}

TEST_F(PagingTest, OlderSlotStaysWhenTheNewWriteFails) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  RunOp({Write(0)});
  const auto first = Select<StartCopy>(RunOp({Read(1)}));
  ASSERT_EQ(first.size(), 1u);
  for (const DropFrame& drop : Select<DropFrame>(RunOp({Write(0)}))) {
    EXPECT_EQ(drop.tier, 0) << "the older slot, before the new write";
  }
  Acquire({Read(1)});
  const auto second = Select<StartCopy>(actions());
  ASSERT_EQ(second.size(), 1u);
  const auto failed = driver().Failed(second[0].task, FailureKind::kTargetFailed);
  for (const DropFrame& drop : Select<DropFrame>(failed)) {
    EXPECT_NE(drop.tier, 0) << "the source is the only valid copy";
    EXPECT_NE(drop.frame, first[0].target_frame) << "the older slot";
  }
  EXPECT_TRUE(Resident(0, 0));
}

TEST_F(PagingTest, OverwritePagesInNothing) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  RunOp({Write(0)});
  RunOp({Write(1)});
  const auto actions = RunOp({Overwrite(0)});
  EXPECT_EQ(CopiesIn(actions), 0u);
  for (const StartFill& fill : Select<StartFill>(actions)) {
    EXPECT_EQ(fill.kind, FillKind::kUndefined);
  }
}

TEST_F(PagingTest, DiscardedPageReadsAsZerosAndLeavesForFree) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  RunOp({Write(0)});
  driver().Send(DiscardPages{0, 1});
  EXPECT_EQ(CopiesOut(RunOp({Read(1)})), 0u);
  const auto fills = Select<StartFill>(RunOp({Read(0)}));
  ASSERT_EQ(fills.size(), 1u);
  EXPECT_EQ(fills[0].kind, FillKind::kZero);
}

TEST_F(PagingTest, DiscardWaitsForLeasesAndEarlierRequests) {
  StartTwoTiers(2, 16);
  Create(1, 1);
  RunOp({Write(0)});
  const TicketNumber reader = Acquire({Read(0)});
  ASSERT_TRUE(Granted(reader));
  driver().Send(DiscardPages{0, 1});
  EXPECT_TRUE(Resident(0, 0));
  const TicketNumber later = Acquire({Read(0)});
  EXPECT_FALSE(Granted(later));
  Release(reader);
  driver().Drain();
  EXPECT_TRUE(Granted(later));  // the driver compared the bytes with zeros
}

TEST_F(PagingTest, FreeWaitsForPins) {
  StartTwoTiers(2, 16);
  Create(2, 1);
  const TicketNumber holder = Acquire({Write(0)});
  driver().Drain();
  ASSERT_TRUE(Granted(holder));
  EXPECT_TRUE(Select<PagesFreed>(driver().Send(FreePages{0, 2})).empty());
  Release(holder);
  EXPECT_EQ(Select<PagesFreed>(actions()).size(), 1u);
  EXPECT_EQ(driver().frames().used(0), 0u);
  Create(2, 1);  // the indices may be used again, and nothing of the old bytes is seen
  RunOp({Read(0), Read(1)});
}

TEST_F(PagingTest, FreedPagesGiveTheirCapacityBack) {
  StartTwoTiers(2, 16);
  const auto refused = Select<SegmentRefused>(
      driver().Send(CreateSegment{.segment = 7, .pages = 1000, .lowest = 1}));
  ASSERT_EQ(refused.size(), 1u);
  const std::uint32_t available = refused[0].pages_available;
  ASSERT_GT(available, 0u);
  Create(available, 1);
  const auto none = Select<SegmentRefused>(
      driver().Send(CreateSegment{.segment = 8, .first_page = available, .pages = 1, .lowest = 1}));
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].pages_available, 0u);
  EXPECT_EQ(Select<PagesFreed>(driver().Send(FreePages{0, available})).size(), 1u);
  Create(available, 1);
}

TEST_F(PagingTest, MappedRequestIsMappedBeforeTheGrant) {
  StartTwoTiers(2, 16);
  Create(2, 1);
  RunOp({Read(0)});
  const TicketNumber resident = Acquire({Mapped(Read(0))});
  ASSERT_EQ(Select<StartMap>(actions()).size(), 1u);
  EXPECT_FALSE(Granted(resident));
  driver().Drain();
  EXPECT_TRUE(Granted(resident));
  const TicketNumber absent = Acquire({Mapped(Read(1))});
  ASSERT_EQ(Select<StartFill>(actions()).size(), 1u);
  EXPECT_TRUE(Select<StartFill>(actions())[0].map);
  driver().Drain();
  EXPECT_TRUE(Granted(absent));
}

TEST_F(PagingTest, PagesBelowTheMiddleNeverLeaveTheirLowestTier) {
  Start({.frames = {1, 8, 64}, .policy = "lru"});
  Create(2, 1);
  for (int i = 0; i < 4; ++i) {
    for (const StartCopy& copy : Select<StartCopy>(RunOp({Write(i % 2u)}))) {
      EXPECT_LE(copy.target, 1);
    }
  }
}

/// A full fast tier does not keep pages from coming nearer. A page that waited for the link is
/// fetched as soon as the link is free. An earlier page of the op may still wait for room.
TEST_F(PagingTest, ACopyThatWaitsForALinkDoesNotWaitForRoomElsewhere) {
  Start({.frames = {4, 10, 64}, .policy = "lru", .copies_in_flight_max = 1, .transit_frames = 1});
  Create(16, 2);
  for (PageIndex page = 0; page < 12; ++page) RunOp({Write(page, 1)});
  driver().Send(DiscardPages{4, 7});
  ASSERT_TRUE(Resident(11, 1) && Resident(0, 2) && Resident(1, 2));
  const TicketNumber holder =
      Acquire({Overwrite(12), Overwrite(13), Overwrite(14), Overwrite(15)}, 1, 1);
  driver().Drain();
  ASSERT_TRUE(Granted(holder)) << "the fast tier is full";
  const TicketNumber ticket = Acquire({Read(11), Read(0), Read(1)}, 2, 2);
  EXPECT_EQ(CopiesIn(actions()), 1u) << "one at a time";
  ASSERT_TRUE(driver().Step().has_value());
  EXPECT_EQ(driver().core().tasks_in_flight(), 1u) << "the other one is on its way";
  driver().Drain();
  EXPECT_TRUE(Resident(0, 1) && Resident(1, 1) && Open(ticket));
  Release(holder);
  driver().Drain();
  EXPECT_TRUE(Granted(ticket));
}

/// Other pages of the op come over a link that is full. The overwritten pages cross no link, and
/// have all their frames before.
TEST_F(PagingTest, OverwritesDoNotWaitBehindReads) {
  Start({.frames = {16, 64, 400}, .policy = "lru", .copies_in_flight_max = 2, .transit_frames = 1});
  Create(200, 2);
  for (PageIndex page = 0; page < 150; ++page) RunOp({Write(page, 1)});
  driver().Send(DiscardPages{60, 90});
  for (PageIndex page = 150; page < 166; ++page) RunOp({Write(page)});
  std::vector<PageRequest> requests;
  for (PageIndex page = 0; page < 8; ++page) requests.push_back(Read(page, 1));
  for (PageIndex page = 20; page < 36; ++page) requests.push_back(Overwrite(page));
  Acquire(requests);
  const auto reads = [](const SimTask& task) { return task.copy() && task.copy()->source == 2; };
  for (bool ended = true; ended;) {
    ended = false;
    const auto tasks = driver().frames().tasks();
    for (const auto& [number, task] : tasks) {
      if (!reads(task)) ended = (driver().Done(number), true);
    }
  }
  EXPECT_EQ(driver().core().tasks_in_flight(), 2u) << "the link is full of reads";
  for (PageIndex page = 20; page < 36; ++page) EXPECT_TRUE(Resident(page, 0)) << page;
  driver().Drain();
}

TEST_F(PagingTest, TwoLeasesOfOneRequestBothPin) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  const TicketNumber ticket = Acquire({{.page = 0, .mode = PageMode::kWrite, .leases = 2}});
  driver().Drain();
  driver().Send(core::Release{ticket, {0}});
  const TicketNumber other = Acquire({Read(1)});
  driver().Drain();
  EXPECT_FALSE(Granted(other));
  driver().Send(core::Release{ticket, {0}});
  driver().Drain();
  EXPECT_TRUE(Granted(other));
}

TEST_F(PagingTest, ReleaseOfUnknownAndReleasedLeasesIsIgnored) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  EXPECT_TRUE(driver().Send(core::Release{77, {0}}).empty());
  const TicketNumber ticket = Acquire({Write(0)});
  driver().Drain();
  Release(ticket);
  const TicketNumber again = Acquire({Write(0)});
  driver().Drain();
  ASSERT_TRUE(Granted(again));
  driver().Send(core::Release{ticket, {0}});
  EXPECT_EQ(driver().core().pinned_pages(), 1u) << "the other ticket's lease stays";
  driver().Send(core::Release{again, {1}});
  EXPECT_EQ(driver().core().pinned_pages(), 1u) << "the ticket holds no such page";
}

TEST_F(PagingTest, CancelOfGrantedAndUnknownTicketsIsIgnored) {
  StartTwoTiers(1, 16);
  Create(2, 1);
  EXPECT_TRUE(driver().Send(Cancel{77}).empty());
  const TicketNumber ticket = Acquire({Write(0)});
  driver().Drain();
  EXPECT_TRUE(driver().Send(Cancel{ticket}).empty());
  const TicketNumber waiting = Acquire({Read(1)});
  driver().Send(Cancel{waiting});
  EXPECT_EQ(FailureOf(waiting).reason, TicketFailure::kCancelled);
}

}  // namespace
}  // namespace sluice::core
