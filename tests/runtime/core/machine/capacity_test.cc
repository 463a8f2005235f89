#include "tests/runtime/core/core_fixture.h"

/// Commitment of a segment's pages to tiers, and the room that is left.

namespace sluice::core {
namespace {

class CapacityTest : public CoreFixture {
 protected:
  std::vector<Action> Ask(std::uint32_t pages, TierIndex lowest, PageIndex first = 0) {
    return driver().Send(
        CreateSegment{.segment = next_++, .first_page = first, .pages = pages, .lowest = lowest});
  }
  /// Committed pages by tier. The test fails if the segment is refused.
  PagesByTier Committed(const std::vector<Action>& actions) {
    const auto created = Select<SegmentCreated>(actions);
    EXPECT_EQ(created.size(), 1u) << driver().Report();
    return created.empty() ? PagesByTier{} : created.front().committed;
  }
  std::uint64_t CommittedIn(TierIndex tier) { return driver().core().tier(tier).committed; }

 private:
  SegmentIndex next_ = 100;
};

/// 16 frames of which 4 are for transit.
TEST_F(CapacityTest, WithoutALastTierPagesStayInTheOneAboveIt) {
  Start({.frames = {4, 16, 0}, .policy = "lru"});
  EXPECT_EQ(Committed(Ask(12, 2)), (PagesByTier{0, 12, 0, 0}));
  const auto refused = Select<SegmentRefused>(Ask(1, 2, 12));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused.front().pages_available, 0u);
  EXPECT_EQ(CommittedIn(1), 12u) << "refused pages are committed to nothing";
  for (PageIndex page = 0; page < 12; ++page) RunOp({Write(page)});
  for (PageIndex page = 0; page < 12; ++page) RunOp({Read(page, 1)});
  for (PageIndex page = 0; page < 12; ++page) RunOp({Write(page, page % 2 == 0 ? 0 : 1)});
  for (PageIndex page = 0; page < 12; ++page) RunOp({Read(page)});
  RunOp({Write(0, 1), Write(1, 1), Write(2, 1), Write(3, 1), Write(4, 1), Write(5, 1)});
}

/// A file of any length under one tier of 4 frames. Pages that are only read commit no tier.
TEST_F(CapacityTest, PagesThatAreOnlyReadAreCommittedToNoTier) {
  for (const FrameIndex below : {0U, 3U}) {
    Start({.frames = {4, below}, .policy = "lru", .copies_in_flight_max = 1, .capacity_from = 0});
    const CreateSegment weights{.segment = 7,
                                .first_page = 10,
                                .pages = 50,
                                .lowest = 0,
                                .file_home = true,
                                .read_only = true};
    EXPECT_EQ(Committed(driver().Send(weights)), PagesByTier{});
    for (int pass = 0; pass < 2; ++pass) {
      for (PageIndex page = 10; page < 60; ++page) RunOp({Read(page)});
    }
    RunOp({Read(10), Read(20), Read(30), Read(40)});
    EXPECT_EQ(CommittedIn(0), 0u);
    Ask(3, 0);
    for (PageIndex page = 10; page < 60; ++page) RunOp({Read(page), Write(0), Write(1), Write(2)});
    driver().Send(FreePages{10, 50});
    EXPECT_EQ(CommittedIn(0), 3u);
    Ask(1, 0, 3);
    EXPECT_EQ(Select<SegmentRefused>(driver().Send(weights)).size(), 1u)
        << "no frame is left for them";
  }
}

/// The lowest tier has room for three pages. An eighth of the 16 frames above is kept for these.
TEST_F(CapacityTest, TheLowestTierComesFirstTheRestStaysAbove) {
  Start({.frames = {4, 16, 5}, .policy = "lru", .copies_in_flight_max = 2});
  EXPECT_EQ(Committed(Ask(2, 2)), (PagesByTier{0, 0, 2, 0}));
  EXPECT_EQ(Committed(Ask(6, 2, 2)), (PagesByTier{0, 5, 1, 0}));
  const auto refused = Select<SegmentRefused>(Ask(6, 2, 8));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused.front().pages_available, 5u);
  EXPECT_EQ(refused.front().available, (PagesByTier{0, 5, 0, 0}));
  EXPECT_EQ(Committed(Ask(5, 2, 8)), (PagesByTier{0, 5, 0, 0}));
  for (PageIndex page = 0; page < 13; ++page) RunOp({Write(page)});
  for (PageIndex page = 0; page < 13; ++page) RunOp({Read(page, 1)});
  RunOp({Read(0, 1), Read(1, 1)});  // both pages come from below, into the frames kept for such
  for (PageIndex page = 0; page < 13; ++page) RunOp({Read(page)});
}

TEST_F(CapacityTest, TheFastestTierCountsOnlyWhereItIsSaid) {
  Start({.frames = {8, 3}, .policy = "lru", .copies_in_flight_max = 1});
  EXPECT_EQ(Select<SegmentRefused>(Ask(3, 1)).size(), 1u);
  Start({.frames = {8, 3}, .policy = "lru", .copies_in_flight_max = 1, .capacity_from = 0});
  EXPECT_EQ(Committed(Ask(9, 1)), (PagesByTier{7, 2, 0, 0}));
  EXPECT_EQ(Select<SegmentRefused>(Ask(1, 1, 9)).size(), 1u);
  for (PageIndex page = 0; page < 9; ++page) RunOp({Write(page)});
  for (PageIndex page = 0; page < 9; ++page) RunOp({Read(page)});
}

TEST_F(CapacityTest, AFreedPageGivesItsOwnCapacityBack) {
  Start({.frames = {4, 16, 5}, .policy = "lru", .copies_in_flight_max = 2});
  EXPECT_EQ(Committed(Ask(8, 2)), (PagesByTier{0, 5, 3, 0}));
  driver().Send(FreePages{1, 4});  // two from below, two from above
  driver().Drain();
  EXPECT_EQ(CommittedIn(1), 3u);
  EXPECT_EQ(CommittedIn(2), 1u);
  EXPECT_EQ(Committed(Ask(4, 2, 1)), (PagesByTier{0, 2, 2, 0}));
}

TEST_F(CapacityTest, ReservationsAndBudgetsTakeNoCommittedFrame) {
  Start({.frames = {4, 16, 0}, .policy = "lru"});
  EXPECT_EQ(Committed(Ask(10, 2)), (PagesByTier{0, 10, 0, 0}));
  EXPECT_EQ(Select<ReservationRefused>(driver().Send(ReserveFrames{1, 1, 3})).size(), 1u);
  EXPECT_EQ(Select<FramesReserved>(driver().Send(ReserveFrames{2, 1, 2})).size(), 1u);
  driver().Send(ReleaseFrames{2});
  const auto refused = Select<BudgetRefused>(driver().Send(SetBudget{1, 13}));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused.front().frames_least, 14u);
  EXPECT_EQ(Select<BudgetSet>(driver().Send(SetBudget{1, 14})).size(), 1u);
  EXPECT_EQ(Select<SegmentRefused>(Ask(1, 2, 10)).size(), 1u);
  EXPECT_EQ(Select<BudgetSet>(driver().Send(SetBudget{1, 16})).size(), 1u);
  EXPECT_EQ(Committed(Ask(2, 2, 10)), (PagesByTier{0, 2, 0, 0}));
}

}  // namespace
}  // namespace sluice::core
