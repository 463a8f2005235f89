#include "runtime/core/state/home_frames.h"

#include "gtest/gtest.h"

namespace sluice::core {
namespace {

/// Iterations in which pages 0 and 1 take turns in one of two frames, and page 2 stays in the
/// other.
class HomeFramesTest : public ::testing::Test {
 protected:
  HomeFramesTest() : pool_(2, FrameOrder::kByReturn) { pool_.Take(2, 1); }

  void Begin(std::uint64_t moved, std::uint64_t plan = 0) {
    homes_.BeginIteration(
        plan, pool_, [&](PageIndex page) { return page == in_frame_0_ ? 0 : kNoFrame; }, moved);
  }
  void TakeTurns() {
    for (const PageIndex page : {0u, 1u}) {
      homes_.Come(page);
      homes_.Go(page);
    }
  }

  FramePool pool_;
  PageIndex in_frame_0_ = kNoPage;  ///< the page that is mapped to frame 0
  HomeFrames homes_;
};

TEST_F(HomeFramesTest, AreChosenOnceAnIterationWasSeenInWhichPagesMoved) {
  TakeTurns();  // events before any iteration
  Begin(0);
  EXPECT_FALSE(homes_.chosen());
  TakeTurns();
  Begin(2);
  EXPECT_TRUE(homes_.chosen());
  EXPECT_EQ(homes_.HomeOf(0), 0u);
  EXPECT_EQ(homes_.HomeOf(1), 0u);
  EXPECT_EQ(homes_.HomeOf(2), 1u);
  EXPECT_EQ(homes_.HomeOf(3), kNoFrame);
}

TEST_F(HomeFramesTest, LastUntilThePageLeaves) {
  Begin(0);
  TakeTurns();
  Begin(2);
  EXPECT_EQ(homes_.Come(0).leaves, 6u) << "the second event after the four before";
  homes_.Go(0);
  const HomeFrames::Home home = homes_.Come(1);
  EXPECT_EQ(home.frame, 0u);
  EXPECT_EQ(home.leaves, 8u);
  EXPECT_EQ(homes_.Come(3).frame, kNoFrame) << "page 3 was not seen";
}

TEST_F(HomeFramesTest, DifferFromTimeToTimeIfNoFrameIsFreeForAll) {
  // Page 2 leaves its frame 1 for a while. Page 0 is there first while it is, then while page 1 is.
  const auto iteration = [&] {
    homes_.Come(0);
    homes_.Go(0);
    homes_.Come(1);
    homes_.Go(2);
    homes_.Come(0);
    homes_.Go(0);
    homes_.Come(2);
    homes_.Go(1);
  };
  in_frame_0_ = 1;
  Begin(0);
  iteration();
  Begin(8);
  EXPECT_EQ(homes_.Come(0).frame, 0u);
  EXPECT_EQ(homes_.Come(0).frame, 1u);
  EXPECT_EQ(homes_.HomeOf(0), 1u) << "the last one counts, however often the page comes";
  Begin(8);
  EXPECT_EQ(homes_.HomeOf(0), 0u);
}

TEST_F(HomeFramesTest, AreNotChosenWhilePagesFindTheirFrames) {
  Begin(0);
  TakeTurns();
  Begin(0);
  EXPECT_FALSE(homes_.chosen());
}

TEST_F(HomeFramesTest, AreNotChosenByAnIterationThatLeftThePlan) {
  Begin(0);
  TakeTurns();
  homes_.Stop();
  Begin(2);
  EXPECT_FALSE(homes_.chosen());
}

TEST_F(HomeFramesTest, AreThoseOfThePlanThatIsFollowed) {
  Begin(0, 7);
  TakeTurns();
  Begin(2, 7);
  homes_.Stop();
  EXPECT_FALSE(homes_.chosen()) << "no plan is followed";
  Begin(2, 8);
  EXPECT_FALSE(homes_.chosen()) << "another plan is followed";
  EXPECT_EQ(homes_.TakenAt(0), kNever);
  homes_.Stop();
  Begin(2, 7);
  EXPECT_TRUE(homes_.chosen()) << "the plan is followed again";
}

TEST_F(HomeFramesTest, AreChosenAnewForAnotherLimitThoughChoicesAreUsedUp) {
  std::uint64_t moved = 0;
  Begin(moved);
  for (int i = 0; i < 20; ++i) {
    TakeTurns();
    Begin(moved += 2);
  }
  pool_.SetLimit(1);
  TakeTurns();
  Begin(moved += 2);
  EXPECT_EQ(homes_.HomeOf(2), kNoFrame) << "the frame of page 2 is above the limit";
}

TEST_F(HomeFramesTest, AreNotChosenByMoreEventsThanAreKept) {
  Begin(0);
  for (int i = 0; i < (1 << 20); ++i) TakeTurns();
  Begin(std::uint64_t{1} << 30);
  EXPECT_FALSE(homes_.chosen());
  TakeTurns();
  Begin(std::uint64_t{1} << 31);
  EXPECT_TRUE(homes_.chosen()) << "the next iteration is seen";
}

TEST_F(HomeFramesTest, AFrameIsTakenWhenTheNextPageAtHomeThereComes) {
  Begin(0);
  TakeTurns();
  Begin(2);
  EXPECT_EQ(homes_.TakenAt(0), 5u) << "the first event after the four of the iteration before";
  homes_.Come(0);
  EXPECT_EQ(homes_.TakenAt(0), 7u) << "page 1 comes third";
  homes_.Go(0);
  homes_.Come(1);
  homes_.Go(1);
  EXPECT_EQ(homes_.TakenAt(0), 9u) << "page 0 comes first in the next iteration";
  EXPECT_EQ(homes_.TakenAt(1), kNever) << "page 2 never comes, as it stays";
}

}  // namespace
}  // namespace sluice::core
