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
  EXPECT_NEAR(slowness.factor(), 3.6, 0.5) << "the first such reads have been learned from";
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

TEST(DriveSlownessTest, IsSeenWhereItComesByAndBy) {
  for (const int reads : {3000, 20000}) {
    DriveSlowness slowness(64);
    for (int i = 0; i < reads; ++i) slowness.NoteRead(0, 1);
    for (int i = 0; i < reads; ++i) slowness.NoteRead(0, 1 + 4.0 * i / reads);
    EXPECT_GT(slowness.factor(), 3) << reads;
  }
}

/// Drives, each of which is told of windows.
class BalanceTest : public ::testing::Test {
 protected:
  void Open(std::size_t drives) {
    balance_.emplace(drives, 64);
    loads_.assign(drives, {.pages = 600, .room = 400});
  }

  /// Of each drive, that so many times as long as at first.
  std::vector<DriveBalance::Move> Windows(int count, const std::vector<double>& seconds) {
    std::vector<DriveBalance::Move> moves;
    for (int window = 0; window < count; ++window) {
      for (std::uint32_t drive = 0; drive < seconds.size(); ++drive) {
        for (int i = 0; i < 64; ++i) {
          if (!balance_->NoteRead(drive, 0, seconds[drive])) continue;
          if (auto move = balance_->Weigh(drive, loads_)) moves.push_back(*std::move(move));
        }
      }
    }
    return moves;
  }

  /// The loads once what is to leave has left, to the drives that have most room.
  void Follow(const DriveBalance::Move& move) {
    for (std::uint32_t from = 0; from < loads_.size(); ++from) {
      SlotIndex left = move.pages[from];
      for (std::uint32_t to = 0; to < loads_.size() && left > 0; ++to) {
        if (move.pages[to] > 0 || loads_[to].fenced || (move.well && to != move.drive)) continue;
        const SlotIndex now = std::min(left, loads_[to].room);
        loads_[from].pages -= now, loads_[from].room += now;
        loads_[to].pages += now, loads_[to].room -= now;
        left -= now;
      }
      EXPECT_EQ(left, 0u) << "there was no room for them";
    }
  }

  std::optional<DriveBalance> balance_;
  std::vector<DriveBalance::Load> loads_;
};

TEST_F(BalanceTest, WhatASlowDriveHasBeyondItsPartLeavesOnceAndComesBack) {
  Open(2);
  EXPECT_TRUE(Windows(30, {1, 2}).empty());
  EXPECT_TRUE(Windows(5, {4, 2}).empty());
  const auto slow = Windows(1, {4, 2});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].drive, 0u);
  EXPECT_FALSE(slow[0].well);
  EXPECT_NEAR(slow[0].factor, 4, 0.4);
  EXPECT_NEAR(slow[0].pages[0], 360, 2) << "a fifth of 1200 stays";
  EXPECT_EQ(slow[0].pages[1], 0u);
  Follow(slow[0]);
  EXPECT_TRUE(Windows(30, {7.9, 2}).empty()) << "not twice as slow as that";
  EXPECT_TRUE(Windows(14, {1, 2}).empty()) << "not for long";
  EXPECT_TRUE(Windows(1, {7.9, 2}).empty());
  EXPECT_TRUE(Windows(15, {1, 2}).empty());
  const auto well = Windows(1, {1, 2});
  ASSERT_EQ(well.size(), 1u);
  EXPECT_EQ(well[0].drive, 0u);
  EXPECT_TRUE(well[0].well);
  EXPECT_LT(well[0].factor, 1.5);
  EXPECT_EQ(well[0].pages[0], 0u);
  EXPECT_NEAR(well[0].pages[1], 360, 2);
  EXPECT_TRUE(Windows(100, {1, 2}).empty());
}

TEST_F(BalanceTest, ADriveThatBecomesSlowerStillIsLeftByMore) {
  Open(2);
  Windows(10, {1, 1});
  Follow(Windows(6, {4, 1}).at(0));
  EXPECT_NEAR(loads_[0].pages, 240, 2);
  loads_[1].room = 300;
  Follow(Windows(1, {12, 1}).at(0));
  EXPECT_NEAR(loads_[0].pages, 92, 2) << "a thirteenth of 1200";
  loads_[1].room = 20;
  EXPECT_EQ(Windows(1, {100, 1}).at(0).pages[0], 20u) << "there is no more room";
}

TEST_F(BalanceTest, ThreeTimesIsSlowAndLessIsNot) {
  Open(2);
  Windows(10, {1, 1});
  EXPECT_TRUE(Windows(100, {2.9, 1}).empty());
  EXPECT_TRUE(Windows(8, {3.2, 1.4}).empty()) << "the other is slower, too";
  EXPECT_EQ(Windows(100, {3.1, 1}).size(), 1u);
}

TEST_F(BalanceTest, OthersThatAreFasterThanTheyWereMakeNoneSlower) {
  Open(2);
  Windows(10, {1, 1});
  const auto slow = Windows(10, {3.1, 0.2});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_NEAR(slow[0].pages[0], 307, 2) << "1200 in a ratio of 1 to 3.1";
}

TEST_F(BalanceTest, OneThatIsSlowNowAndThenTakesLongerEachTime) {
  Open(2);
  Windows(10, {1, 1});
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
  Windows(10, {1, 1});
  EXPECT_TRUE(Windows(30, {5, 5}).empty());
  EXPECT_TRUE(Windows(30, {1, 1}).empty());
  loads_[1].fenced = true;
  EXPECT_TRUE(Windows(30, {5, 1}).empty());
  EXPECT_TRUE(Windows(30, {1, 1}).empty());
  loads_[1] = {.pages = 600, .room = 0};
  EXPECT_TRUE(Windows(30, {5, 1}).empty());
}

TEST_F(BalanceTest, AllThatAreSlowTogetherWithOthersThatAreWell) {
  Open(3);
  Windows(10, {1, 1, 1});
  EXPECT_TRUE(Windows(30, {5, 5, 1}).empty()) << "of three, two are slow: the slowest other counts";
}

TEST_F(BalanceTest, OneThatIsSlowForGoodHidesNoOther) {
  Open(3);
  Windows(10, {1, 1, 1});
  Follow(Windows(10, {10, 1, 1}).at(0));
  const auto second = Windows(10, {10, 8, 1});
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].drive, 1u);
  Follow(second[0]);
  const auto well = Windows(30, {10, 1, 1});
  ASSERT_EQ(well.size(), 1u);
  EXPECT_EQ(well[0].drive, 1u);
  EXPECT_GT(well[0].pages[0] + well[0].pages[2], 400u);
}

/// Both have become as slow, one of them later.
TEST_F(BalanceTest, TwoThatAreSlowInTurnAreEvenAgain) {
  Open(2);
  Windows(10, {1, 1});
  Follow(Windows(6, {5, 1}).at(0));
  EXPECT_NEAR(loads_[0].pages, 200, 2);
  const auto second = Windows(20, {5, 5});
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].drive, 1u);
  Follow(second[0]);
  EXPECT_NEAR(loads_[0].pages, 600, 2);
  EXPECT_TRUE(Windows(100, {5, 5}).empty());
  Follow(Windows(20, {5, 1}).at(0));
  EXPECT_NEAR(loads_[0].pages, 200, 2) << "the second is well again";
}

TEST_F(BalanceTest, NothingLeavesForADriveThatHasFailedNorComesBackToIt) {
  Open(3);
  loads_[2] = {.pages = 600, .room = 1000, .fenced = true};
  Windows(10, {1, 1, 1});
  const auto slow = Windows(10, {5, 1, 5});
  ASSERT_EQ(slow.size(), 1u) << "the one that has failed does not count";
  EXPECT_NEAR(slow[0].pages[0], 400, 2) << "one other has pages that count";
  Follow(slow[0]);
  EXPECT_NEAR(loads_[0].pages, 200, 2);
  loads_[0].fenced = true;
  EXPECT_TRUE(Windows(100, {1, 1, 1}).empty());
  loads_[0].fenced = false;
  loads_[0].room = 100;
  const auto well = Windows(30, {1, 1, 1});
  ASSERT_EQ(well.size(), 1u);
  EXPECT_NEAR(well[0].pages[1], 100, 1) << "as it has room, of those that are not fenced";
  EXPECT_EQ(well[0].pages[2], 0u);
}

TEST_F(BalanceTest, ADriveThatHasFailedIsLeftByNoneForBeingSlow) {
  Open(2);
  Windows(10, {1, 1});
  loads_[0].fenced = true;
  EXPECT_TRUE(Windows(30, {5, 1}).empty());
}

TEST_F(BalanceTest, NoMoreLeavesThanThoseThatHaveNotFailedHaveRoomFor) {
  Open(3);
  loads_[1].room = 70;
  loads_[2] = {.pages = 600, .room = 1000, .fenced = true};
  Windows(10, {1, 1, 1});
  EXPECT_EQ(Windows(10, {5, 1, 1}).at(0).pages[0], 70u);
}

/// All pages have been written anew since, so the drive has more than what had stayed.
TEST_F(BalanceTest, OneThatHasItsPartGetsNoMore) {
  Open(2);
  Windows(10, {1, 1});
  Follow(Windows(6, {4, 1}).at(0));
  loads_ = {{.pages = 400, .leaving = 100, .room = 500}, {.pages = 700, .room = 300}};
  const auto well = Windows(20, {1, 1});
  ASSERT_EQ(well.size(), 1u);
  EXPECT_TRUE(well[0].well);
  EXPECT_NEAR(well[0].pages[1], 150, 1) << "half of 1200, with half of those on their way";
  loads_ = {{.pages = 600, .room = 400}, {.pages = 600, .room = 400}};
  Follow(Windows(20, {4, 1}).at(0));
  loads_ = {{.pages = 600, .room = 400}, {.pages = 600, .room = 400}};
  const auto again = Windows(20, {1, 1});
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].pages[1], 0u);
}

TEST_F(BalanceTest, NoMoreComesBackThanHasLeft) {
  Open(2);
  Windows(10, {1, 1});
  Follow(Windows(6, {4, 1}).at(0));
  loads_ = {{.pages = 0, .room = 1000}, {.pages = 1200, .room = 0}};
  EXPECT_NEAR(Windows(20, {1, 1}).at(0).pages[1], 360, 2);
}

}  // namespace
}  // namespace sluice::io
