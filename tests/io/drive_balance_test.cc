#include "io/drive_balance.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::io {
namespace {

/// A window of reads that take this long, with as many operations ahead of each.
bool Window(DriveSlowness& slowness, std::uint32_t ahead, double seconds) {
  bool ended = false;
  for (int i = 0; i < 64; ++i) ended = slowness.NoteRead(ahead, seconds);
  return ended;
}

TEST(DriveSlownessTest, IsOfReadsThatHadAsManyAheadOfThem) {
  DriveSlowness slowness(64);
  EXPECT_FALSE(Window(slowness, 0, 1)) << "nothing to hold it against";
  EXPECT_TRUE(Window(slowness, 0, 1));
  EXPECT_NEAR(slowness.factor(), 1, 0.01);
  Window(slowness, 7, 6);
  EXPECT_LT(slowness.factor(), 1) << "behind seven others it may take eight times as long";
  Window(slowness, 7, 6);
  EXPECT_NEAR(slowness.factor(), 1, 0.05) << "six times is usual now";
  Window(slowness, 7, 24);
  EXPECT_NEAR(slowness.factor(), 4, 0.1);
  for (int i = 0; i < 20; ++i) Window(slowness, 0, 5);
  EXPECT_NEAR(slowness.factor(), 5, 0.2) << "nor does that become usual";
  Window(slowness, 0, 1);
  EXPECT_NEAR(slowness.factor(), 1, 0.05);
}

TEST(DriveSlownessTest, AFewReadsThatTakeLongSayNothing) {
  DriveSlowness slowness(64);
  Window(slowness, 0, 1);
  for (int i = 0; i < 64; ++i) slowness.NoteRead(0, i < 28 ? 1000 : 1);
  EXPECT_LT(slowness.factor(), 1.5);
}

/// A page that a cache had, say.
TEST(DriveSlownessTest, AFewFirstReadsThatTakeNoTimeSayNothing) {
  for (const std::uint32_t ahead : {0U, 7U}) {
    DriveSlowness slowness(64);
    if (ahead > 0) Window(slowness, 0, 1);
    for (int i = 0; i < 8; ++i) slowness.NoteRead(ahead, i < 4 ? 0 : 0.001);
    for (int i = 0; i < 4; ++i) Window(slowness, ahead, 1);
    EXPECT_NEAR(slowness.factor(), 1, 0.01) << ahead;
  }
}

TEST(DriveSlownessTest, AClockMayStandStill) {
  DriveSlowness slowness(64);
  for (int i = 0; i < 3; ++i) Window(slowness, 0, 0);
  EXPECT_EQ(slowness.factor(), 1);
}

/// As where its pages have left it meanwhile.
TEST(DriveSlownessTest, IsSeenToEndWithFewerAheadThanEverBefore) {
  DriveSlowness slowness(64);
  Window(slowness, 7, 8);
  Window(slowness, 7, 40);
  EXPECT_NEAR(slowness.factor(), 5, 0.01);
  Window(slowness, 0, 5);
  EXPECT_LT(slowness.factor(), 1.5) << "it may take 8";
  Window(slowness, 0, 1);
  EXPECT_LT(slowness.factor(), 1.5);
}

TEST(DriveSlownessTest, WhatASlowDriveTakesWithMoreAheadThanEverBeforeIsNotUsual) {
  DriveSlowness slowness(64);
  Window(slowness, 0, 1);
  for (int i = 0; i < 40; ++i) slowness.NoteRead(0, 1);
  for (int i = 0; i < 24; ++i) slowness.NoteRead(3, 40);
  for (int i = 0; i < 4; ++i) Window(slowness, 3, 40);
  EXPECT_NEAR(slowness.factor(), 10, 0.1);
}

/// From 1.5 on nothing is learned, so that is what no level may span.
TEST(DriveSlownessTest, WhatTakesAsMuchLongerAsItHasMoreAheadIsUsual) {
  for (std::uint32_t ahead = 0; ahead < 100; ++ahead) {
    DriveSlowness slowness(64);
    for (int i = 0; i < 2; ++i) Window(slowness, ahead, ahead + 1);
    for (std::uint32_t more = ahead; more < 2 * ahead + 2; ++more) {
      Window(slowness, more, more + 1);
      EXPECT_LT(slowness.factor(), DriveSlowness::kWell) << ahead << ", " << more;
      EXPECT_GT(slowness.factor(), 1 / DriveSlowness::kWell) << ahead << ", " << more;
    }
  }
}

TEST(DriveSlownessTest, IsSeenWhereItComesByAndBy) {
  for (const int reads : {3000, 20000}) {
    DriveSlowness slowness(64);
    for (int i = 0; i < reads; ++i) slowness.NoteRead(0, 1);
    for (int i = 0; i < reads; ++i) slowness.NoteRead(0, 1 + 4.0 * i / reads);
    EXPECT_GT(slowness.factor(), 3) << reads;
  }
}

/// Drives, each of which is told of windows; pages go at once where they are to.
class BalanceTest : public ::testing::Test {
 protected:
  /// All have been written, and as much to each.
  void Open(std::size_t drives) {
    balance_.emplace(drives, 64);
    loads_.assign(drives, {.staying = 600, .room = 2000});
    balance_->NoteWrite();
    Windows(10, std::vector<double>(drives, 1));
  }

  /// Of each drive, that so many times as long as at first.
  std::vector<DriveBalance::Move> Windows(int count, const std::vector<double>& seconds) {
    std::vector<DriveBalance::Move> moves;
    for (int window = 0; window < count; ++window) {
      for (std::uint32_t drive = 0; drive < seconds.size(); ++drive) {
        for (int i = 0; i < 64; ++i) {
          if (!balance_->NoteRead(drive, 0, seconds[drive])) continue;
          if (const auto move = balance_->Weigh(drive, loads_)) Follow(*move, &moves);
        }
      }
    }
    return moves;
  }

  void Follow(const DriveBalance::Move& move, std::vector<DriveBalance::Move>* moves) {
    moves->push_back(move);
    SlotIndex leave = 0;
    SlotIndex come = 0;
    for (std::uint32_t i = 0; i < loads_.size(); ++i) {
      EXPECT_TRUE(move.leave[i] == 0 || move.come[i] == 0);
      EXPECT_LE(move.leave[i], loads_[i].staying);
      EXPECT_LE(move.come[i], loads_[i].room + loads_[i].leaving);
      leave += move.leave[i] + loads_[i].leaving;
      come += move.come[i];
      loads_[i].staying += move.come[i] - move.leave[i];
      loads_[i].room += move.leave[i] + loads_[i].leaving - move.come[i];
      loads_[i].leaving = 0;
    }
    EXPECT_NEAR(leave, come, static_cast<double>(loads_.size()));
  }

  void ExpectPages(const std::vector<int>& pages) const {
    for (std::size_t i = 0; i < pages.size(); ++i) {
      EXPECT_NEAR(loads_[i].staying, pages[i], 4) << "drive " << i;
    }
  }

  std::optional<DriveBalance> balance_;
  std::vector<DriveBalance::Load> loads_;
};

TEST_F(BalanceTest, WhatASlowDriveHasBeyondItsPartLeavesOnceAndComesBack) {
  Open(2);
  EXPECT_TRUE(Windows(30, {1, 1.4}).empty());
  EXPECT_TRUE(Windows(5, {4, 1.4}).empty());
  const auto slow = Windows(1, {4, 1.4});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].drive, 0u);
  EXPECT_FALSE(slow[0].better);
  EXPECT_NEAR(slow[0].factor, 4, 0.1);
  EXPECT_EQ(slow[0].leave[1], 0u);
  ExpectPages({240, 960});
  EXPECT_TRUE(Windows(30, {7.5, 1.4}).empty()) << "not twice as slow as that";
  EXPECT_TRUE(Windows(14, {1, 1.4}).empty()) << "not for long";
  EXPECT_TRUE(Windows(1, {7.5, 1.4}).empty());
  EXPECT_TRUE(Windows(15, {1, 1.4}).empty());
  const auto well = Windows(1, {1, 1.4});
  ASSERT_EQ(well.size(), 1u);
  EXPECT_EQ(well[0].drive, 0u);
  EXPECT_TRUE(well[0].better);
  EXPECT_LT(well[0].factor, 1.5);
  ExpectPages({600, 600});
  EXPECT_TRUE(Windows(100, {1, 1.4}).empty());
}

TEST_F(BalanceTest, ADriveThatBecomesSlowerStillIsLeftByMoreAndPartlyWellByLess) {
  Open(2);
  EXPECT_EQ(Windows(6, {4, 1}).size(), 1u);
  ExpectPages({240, 960});
  EXPECT_EQ(Windows(10, {12, 1}).size(), 1u);
  ExpectPages({92, 1108});
  EXPECT_EQ(Windows(20, {2, 1}).size(), 1u);
  ExpectPages({400, 800});
  EXPECT_EQ(Windows(20, {1.2, 1}).size(), 1u) << "that is well, though not half of 2";
  ExpectPages({600, 600});
}

TEST_F(BalanceTest, OthersTakeWhatTheyHaveRoomFor) {
  Open(3);
  loads_[1].room = 70;
  loads_[2].room = 500;
  Windows(10, {10, 1, 1});
  ExpectPages({103, 670, 1027});
  loads_[2].room = 0;
  Windows(10, {25, 1, 1});
  ExpectPages({103, 670, 1027});
}

TEST_F(BalanceTest, PagesLeaveOnceThereIsRoomForThem) {
  Open(2);
  loads_[1].room = 0;
  Windows(10, {5, 1});
  ExpectPages({600, 600});
  loads_[1].room = 500;
  EXPECT_EQ(Windows(1, {5, 1}).size(), 1u);
  ExpectPages({200, 1000});
}

TEST_F(BalanceTest, ThreeTimesIsSlowAndLessIsNot) {
  Open(2);
  EXPECT_TRUE(Windows(100, {2.9, 1}).empty());
  EXPECT_TRUE(Windows(8, {3.2, 1.4}).empty()) << "the other is slower, too";
  EXPECT_EQ(Windows(100, {3.1, 1}).size(), 1u);
}

TEST_F(BalanceTest, OthersThatAreFasterThanTheyWereMakeNoneSlower) {
  Open(2);
  EXPECT_EQ(Windows(10, {3.1, 0.2}).size(), 1u);
  ExpectPages({293, 907});
}

TEST_F(BalanceTest, OneThatIsSlowNowAndThenTakesLongerEachTime) {
  Open(2);
  for (int needed = 4; needed <= 8192; needed *= 2) {
    // Two more, by which the other is known to be as it was.
    const int wanted = std::min(needed, 4096);
    EXPECT_TRUE(Windows(wanted + 1, {5, 1}).empty()) << needed;
    EXPECT_EQ(Windows(1, {5, 1}).size(), 1u) << needed;
    EXPECT_EQ(Windows(20, {1, 1}).size(), 1u) << "back";
  }
}

TEST_F(BalanceTest, NothingLeavesWhereAllAreSlowOrThereIsNoOther) {
  Open(2);
  EXPECT_TRUE(Windows(30, {5, 5}).empty());
  EXPECT_TRUE(Windows(30, {1, 1}).empty());
  loads_[1].fenced = true;
  EXPECT_TRUE(Windows(30, {5, 1}).empty());
  loads_[1].fenced = false;
  loads_[0].fenced = true;
  EXPECT_TRUE(Windows(30, {5, 1}).empty());
}

TEST_F(BalanceTest, NothingLeavesWherePartsAreNotKnown) {
  balance_.emplace(2, 64);
  loads_.assign(2, {.staying = 600, .room = 400});
  Windows(10, {1, 1});
  EXPECT_TRUE(Windows(30, {5, 1}).empty());
}

TEST_F(BalanceTest, AllThatAreSlowTogetherWithOthersThatAreWell) {
  Open(3);
  EXPECT_TRUE(Windows(30, {5, 5, 1}).empty()) << "of three, two are slow: the slowest other counts";
}

TEST_F(BalanceTest, OneThatIsSlowForGoodHidesNoOther) {
  Open(3);
  Windows(10, {10, 1, 1});
  ExpectPages({86, 857, 857});
  const auto second = Windows(10, {10, 8, 1});
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].drive, 1u);
  ExpectPages({147, 184, 1469});
  Windows(30, {10, 1, 1});
  ExpectPages({86, 857, 857});
}

/// In whichever order they become well again.
TEST_F(BalanceTest, TwoThatAreSlowInTurnHaveTheirPartsAgain) {
  for (const std::size_t first : {0U, 1U}) {
    Open(2);
    Windows(10, {5, 1});
    ExpectPages({200, 1000});
    Windows(10, {5, 5});
    ExpectPages({600, 600});
    EXPECT_TRUE(Windows(100, {5, 5}).empty());
    std::vector<double> seconds = {5, 5};
    seconds[first] = 1;
    Windows(20, seconds);
    ExpectPages(first == 0 ? std::vector{1000, 200} : std::vector{200, 1000});
    Windows(20, {1, 1});
    ExpectPages({600, 600});
  }
}

TEST_F(BalanceTest, OneThatBecomesSlowAsTheOtherBecomesWell) {
  Open(2);
  Windows(10, {5, 1});
  Windows(40, {1, 5});
  ExpectPages({1000, 200});
  Windows(20, {1, 1});
  ExpectPages({600, 600});
}

TEST_F(BalanceTest, ADriveThatHasFailedGetsNothingAndCountsForNothing) {
  Open(3);
  loads_[2] = {.staying = 600, .room = 1000, .fenced = true};
  EXPECT_EQ(Windows(10, {5, 1, 5}).size(), 1u);
  ExpectPages({200, 1000, 600});
  loads_[0].fenced = true;
  EXPECT_TRUE(Windows(100, {1, 1, 1}).empty());
}

/// What is on its way is written like any other.
TEST_F(BalanceTest, PagesThatHaveNotLeftYetMayStay) {
  Open(2);
  Windows(10, {4, 1});
  loads_ = {{.staying = 240, .leaving = 300, .room = 460}, {.staying = 660, .room = 340}};
  const auto well = Windows(20, {1, 1});
  ASSERT_EQ(well.size(), 1u);
  EXPECT_NEAR(well[0].come[0], 360, 1) << "600 of 1200";
  EXPECT_NEAR(well[0].leave[1], 60, 1);
}

TEST_F(BalanceTest, PagesThatHaveNotLeftYetHaveTheirPlaces) {
  Open(2);
  Windows(10, {4, 1});
  loads_ = {{.staying = 240, .leaving = 300, .room = 0}, {.staying = 660, .room = 340}};
  const auto well = Windows(20, {1, 1});
  ASSERT_EQ(well.size(), 1u);
  EXPECT_NEAR(well[0].come[0], 300, 1);
}

TEST_F(BalanceTest, OneCountsAsSlowAsItIsBesideTheOthers) {
  Open(2);
  Windows(100, {1, 1});
  EXPECT_EQ(Windows(6, {8, 1.4}).size(), 1u);
  EXPECT_NEAR(loads_[0].staying, 170, 10) << "a seventh of 1200";
}

/// Which are learned after writes alone, while all are well and nothing moves.
TEST_F(BalanceTest, PartsAreWhatDrivesHave) {
  Open(2);
  loads_ = {{.staying = 300, .room = 700}, {.staying = 900, .room = 900}};
  Windows(10, {1, 1});
  Windows(10, {5, 1});
  EXPECT_NEAR(loads_[0].staying, 200, 2) << "nothing was written, so a half of it is its part";
  loads_ = {{.staying = 300, .room = 700}, {.staying = 900, .room = 900}};
  Windows(30, {1, 1});
  ExpectPages({600, 600});
  loads_ = {{.staying = 300, .room = 700}, {.staying = 900, .room = 900}};
  balance_->NoteWrite();
  Windows(1, {1, 1});
  Windows(20, {5, 1});
  ExpectPages({75, 1125});
  loads_ = {{.staying = 10, .room = 900}, {.staying = 1190, .room = 900}};
  balance_->NoteWrite();
  Windows(30, {1, 1});
  ExpectPages({300, 900});
}

TEST_F(BalanceTest, NoneThatIsWellGivesUpPagesForOneThatBecomesSlow) {
  Open(3);
  loads_[0] = {.staying = 100, .room = 900};
  loads_[1] = {.staying = 1100, .room = 900};
  Windows(10, {4, 1, 1});
  EXPECT_EQ(loads_[0].staying, 100U) << "fewer than it might have";
  EXPECT_GE(loads_[1].staying, 1100U);
  Windows(10, {10, 1, 1});
  EXPECT_NEAR(loads_[0].staying, 86, 4) << "a tenth of what the others have";
  EXPECT_GE(loads_[1].staying, 1100U);
}

/// As pages of others have been written where they were to come.
TEST_F(BalanceTest, OneThatHasNotGotItsPartIsSeenToAFewTimes) {
  Open(2);
  Windows(6, {5, 1});
  EXPECT_EQ(Windows(16, {1, 1}).size(), 1u);
  for (int times = 0; times < 6; ++times) {
    loads_ = {{.staying = 400, .room = 2000}, {.staying = 800, .room = 2000}};
    EXPECT_EQ(Windows(1, {1, 1}).size(), times < 3 ? 1U : 0U) << times;
  }
}

TEST_F(BalanceTest, OneThatIsWellAlreadyIsNotLeftForHavingFarTooMany) {
  Open(2);
  Windows(10, {10, 1});
  loads_ = {{.staying = 600, .room = 2000}, {.staying = 600, .room = 2000}};
  EXPECT_TRUE(Windows(10, {1, 1}).empty());
}

TEST_F(BalanceTest, OneThatIsBetterGivesNothingUp) {
  Open(2);
  Windows(6, {5, 1});
  loads_ = {{.staying = 1000, .room = 2000}, {.staying = 200, .room = 2000}};
  Windows(30, {1, 1});
  ExpectPages({1000, 200});
}

TEST_F(BalanceTest, AStallNowAndThenOfOneThatIsSlowMovesNothing) {
  Open(2);
  Windows(10, {4, 1});
  for (int round = 0; round < 300; ++round) {
    EXPECT_TRUE(Windows(3, {100, 1}).empty());
    EXPECT_TRUE(Windows(17, {4, 1}).empty());
  }
}

}  // namespace
}  // namespace sluice::io
