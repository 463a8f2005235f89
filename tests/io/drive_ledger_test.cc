// Which of several drives is written, by the rates that they show, in virtual time.
#include "io/drive_ledger.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using Clock = DriveLedger::Clock;

constexpr std::uint64_t kLargePage = std::uint64_t{1} << 20;

DriveSetOptions Options(SlotIndex slots, const std::vector<double>& rates) {
  DriveSetOptions options{.store = {.page_bytes = kLargePage, .slots = slots}, .rates = rates};
  for (std::size_t i = 0; i < rates.size(); ++i) options.directories.push_back("/drive");
  return options;
}

/// Writes pages to drives that take one after the other, each at its own pace. The oldest page is
/// forgotten when there are more than `kept`.
class VirtualWriter {
 public:
  VirtualWriter(DriveLedger& ledger, SlotIndex slots, std::size_t kept, std::vector<double> rates)
      : ledger_(ledger), slots_(slots), kept_(kept), rates_(std::move(rates)) {
    free_at_.resize(rates_.size());
  }

  void SetRate(std::uint32_t drive, double rate) { rates_[drive] = rate; }

  /// Eight at a time, `count` in all; the share of the first drive.
  double Write(int count) {
    int first = 0;
    for (int i = 0; i < count; ++i) {
      while (underway_.size() >= 8) FinishOne();
      first += StartOne() == 0 ? 1 : 0;
    }
    return static_cast<double>(first) / count;
  }

 private:
  struct Underway {
    Clock::time_point end;
    WriteAttempt attempt;
    bool operator>(const Underway& other) const { return end > other.end; }
  };

  std::uint32_t StartOne() {
    if (pages_.size() >= kept_) {
      ledger_.Forget(pages_.front());
      pages_.pop_front();
    }
    const SlotIndex slot = next_++ % slots_;
    pages_.push_back(slot);
    const absl::StatusOr<WriteAttempt> attempt = ledger_.BeginWrite(slot, now_);
    EXPECT_THAT(attempt, IsOk());
    const std::uint32_t drive = attempt->place.drive;
    const std::chrono::duration<double> seconds(static_cast<double>(kLargePage) / rates_[drive]);
    free_at_[drive] =
        std::max(free_at_[drive], now_) + std::chrono::duration_cast<Clock::duration>(seconds);
    underway_.push({free_at_[drive], *attempt});
    return drive;
  }

  void FinishOne() {
    Underway first = underway_.top();
    underway_.pop();
    now_ = first.end;
    const DriveLedger::WriteEnd end = ledger_.EndWrite(&first.attempt, absl::OkStatus(), now_);
    EXPECT_FALSE(end.again || end.fenced.has_value());
  }

  DriveLedger& ledger_;
  const SlotIndex slots_;
  const std::size_t kept_;
  std::vector<double> rates_;
  std::vector<Clock::time_point> free_at_;
  std::priority_queue<Underway, std::vector<Underway>, std::greater<>> underway_;
  std::deque<SlotIndex> pages_;
  SlotIndex next_ = 0;
  Clock::time_point now_{};
};

TEST(DriveLedgerTest, WritesAreInProportionToTheRatesFromTheStart) {
  DriveLedger ledger(Options(4000, {2e9, 5e8}));
  VirtualWriter writer(ledger, 4000, 1000, {2e9, 5e8});
  EXPECT_NEAR(writer.Write(100), 0.8, 0.02);
  EXPECT_NEAR(writer.Write(1000), 0.8, 0.02);
}

TEST(DriveLedgerTest, RatesThatWereMeasuredWronglyAreCorrected) {
  DriveLedger ledger(Options(4000, {1e9, 1e9}));
  VirtualWriter writer(ledger, 4000, 1000, {2e9, 5e8});
  writer.Write(400);
  EXPECT_NEAR(writer.Write(1000), 0.8, 0.03);
  EXPECT_NEAR(ledger.StatsOf(0).bytes_per_second, 2e9, 1e8);
  EXPECT_NEAR(ledger.StatsOf(1).bytes_per_second, 5e8, 3e7);
  EXPECT_EQ(ledger.StatsOf(1).bytes_per_second_at_start, 1e9);
}

TEST(DriveLedgerTest, ADriveThatBecomesFourTimesSlowerGetsAsMuchLess) {
  DriveLedger ledger(Options(4000, {1e9, 1e9}));
  VirtualWriter writer(ledger, 4000, 1000, {1e9, 1e9});
  EXPECT_NEAR(writer.Write(1000), 0.5, 0.02);
  writer.SetRate(0, 2.5e8);
  writer.Write(400);
  EXPECT_NEAR(writer.Write(1000), 0.2, 0.03);
  writer.SetRate(0, 1e9);
  writer.Write(800);  // it is written seldom, so it takes longer to show that it is well again
  EXPECT_NEAR(writer.Write(1000), 0.5, 0.03);
}

/// One operation at a time.
class DriveLedgerOneByOneTest : public ::testing::Test {
 protected:
  /// All slots but a tenth hold a page, or these.
  void Open(SlotIndex slots, std::size_t drives, SlotIndex pages = 0) {
    DriveSetOptions options = Options(slots, std::vector<double>(drives, 1e9));
    options.on_slow = [](const SlowDrive&) {};
    ledger_.emplace(options);
    pages_ = pages > 0 ? pages : slots - slots / 10;
    for (SlotIndex slot = 0; slot < pages_; ++slot) Write(slot);
  }

  /// The drive.
  std::uint32_t Write(SlotIndex slot) {
    absl::StatusOr<WriteAttempt> attempt = ledger_->BeginWrite(slot, now_);
    EXPECT_THAT(attempt, IsOk());
    now_ += std::chrono::milliseconds(1);
    ledger_->EndWrite(&*attempt, absl::OkStatus(), now_);
    return attempt->place.drive;
  }

  /// What is told of pages read in turn, each of which takes as long as its drive does.
  std::vector<SlowDrive> Read(int count,
                              const std::vector<int>& milliseconds,
                              const absl::Status& status = absl::OkStatus()) {
    std::vector<SlowDrive> told;
    for (int i = 0; i < count; ++i) {
      const auto read = ledger_->BeginRead(static_cast<SlotIndex>(i) % pages_, now_);
      EXPECT_THAT(read, IsOk());
      now_ += std::chrono::milliseconds(milliseconds[read->place.drive]);
      ledger_->EndRead(*read, status, now_);
      if (auto slow = ledger_->TakeSlow()) told.push_back(*std::move(slow));
    }
    return told;
  }

  int PagesOn(std::uint32_t drive) {
    int pages = 0;
    for (SlotIndex slot = 0; slot < pages_; ++slot) {
      const auto read = ledger_->BeginRead(slot, now_);
      EXPECT_THAT(read, IsOk());
      pages += read->place.drive == drive ? 1 : 0;
      ledger_->EndRead(*read, absl::UnavailableError("only asked where it is"), now_);
    }
    return pages;
  }

  std::optional<DriveLedger> ledger_;
  SlotIndex pages_ = 0;
  Clock::time_point now_{};
};

TEST_F(DriveLedgerOneByOneTest, AFullDriveIsPassedOverAndGetsItsTurnAgain) {
  Open(80, 2);
  for (; pages_ < 80; ++pages_) Write(pages_);
  std::vector<SlotIndex> on_first, on_second;
  for (SlotIndex slot = 0; slot < 80; ++slot) {
    const auto read = ledger_->BeginRead(slot, now_);
    ASSERT_THAT(read, IsOk());
    ledger_->EndRead(*read, absl::OkStatus(), now_);
    (read->place.drive == 0 ? on_first : on_second).push_back(slot);
  }
  ASSERT_EQ(on_first.size(), 40u);
  for (; on_second.size() > 20; on_second.pop_back()) ledger_->Forget(on_second.back());
  // Again and again to the second: the first has room for its one spare page only.
  int to_first = 0;
  for (int round = 0; round < 10; ++round) {
    for (const SlotIndex slot : on_second) to_first += Write(slot) == 0 ? 1 : 0;
  }
  EXPECT_LE(to_first, 10);
  // With room again it gets its part, from the next write on: nothing is made up for.
  for (const SlotIndex slot : on_first) ledger_->Forget(slot);
  to_first = 0;
  for (int i = 0; i < 10; ++i) to_first += Write(on_first[static_cast<std::size_t>(i)]) == 0;
  EXPECT_GE(to_first, 4);
  EXPECT_LE(to_first, 6);
}

TEST_F(DriveLedgerOneByOneTest, PagesThatWereToLeaveAndAreGoneKeepNoWriteAway) {
  Open(3000, 3);
  Read(2000, {1, 1, 1});
  const auto slow = Read(4000, {10, 1, 1});
  ASSERT_EQ(slow.size(), 1u);
  ASSERT_GT(slow[0].slots.size(), 190u) << "there is room for 202";
  for (SlotIndex slot = 0; slot < pages_; ++slot) ledger_->Forget(slot);
  int first = 0;
  for (SlotIndex slot = 0; slot < 100; ++slot) first += Write(slot) == 0 ? 1 : 0;
  EXPECT_GT(first, 1) << "none is to come for them";
}

TEST_F(DriveLedgerOneByOneTest, NoMoreIsToLeaveOrComeBackThanThereIsRoomFor) {
  Open(1000, 2);
  Read(1000, {1, 1});
  const auto slow = Read(2000, {4, 1});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].slots.size(), 51u) << "500 slots and one to spare, 450 pages";
  EXPECT_EQ(ledger_->StatsOf(0).rebalanced, 51u);
  EXPECT_TRUE(Read(2000, {10, 1}).empty()) << "they have not left, but are on their way";
  EXPECT_TRUE(Read(5000, {1, 1}).empty()) << "they may stay";
  for (const SlotIndex slot : slow[0].slots) Write(slot);
  EXPECT_NEAR(PagesOn(0), 450, 1);
}

TEST_F(DriveLedgerOneByOneTest, WritesGoToThoseThatAreToHaveMore) {
  Open(3000, 3);
  Read(2000, {1, 1, 1});
  const auto first = Read(4000, {4, 1, 1});
  ASSERT_EQ(first.size(), 1u);
  const std::size_t pages = first[0].slots.size();
  EXPECT_EQ(pages, 202u) << "for which there is room";
  std::array<int, 3> written{};
  for (std::size_t i = 0; i < pages; ++i) {
    ++written[Write(first[0].slots[i])];
    EXPECT_NEAR(written[1], written[2], 1) << "in turn";
  }
  EXPECT_LE(written[0], 1);
  EXPECT_NEAR(written[1], 101, 1);
  const auto well = Read(9000, {1, 1, 1});
  ASSERT_EQ(well.size(), 1u);
  EXPECT_TRUE(well[0].better);
  EXPECT_NEAR(static_cast<double>(well[0].slots.size()), 202, 2);
  int back = 0;
  for (const SlotIndex slot : well[0].slots) back += Write(slot) == 0 ? 1 : 0;
  EXPECT_NEAR(back, 202, 2);
}

TEST_F(DriveLedgerOneByOneTest, AsManyWritesGoElsewhereAsPagesLeaveWhicheverTheyAre) {
  Open(3000, 3, 1000);
  Read(2000, {1, 1, 1});
  const auto slow = Read(4000, {4, 1, 1});
  ASSERT_EQ(slow.size(), 1u);
  const auto pages = static_cast<SlotIndex>(slow[0].slots.size());
  EXPECT_NEAR(pages, 222, 4) << "a ninth of 1000 stays";
  int first = 0;
  for (SlotIndex slot = 1000; slot < 1000 + pages; ++slot) first += Write(slot) == 0 ? 1 : 0;
  EXPECT_LE(first, 1);
  for (SlotIndex slot = 1000 + pages; slot < 1600; ++slot) first += Write(slot) == 0 ? 1 : 0;
  EXPECT_GT(first, 20);
}

TEST_F(DriveLedgerOneByOneTest, NoneWaitsForADriveThatHangsThoughPagesAreToComeToIt) {
  Open(3000, 2, 1000);
  Read(1000, {1, 1});
  const auto slow = Read(2000, {10, 1});
  ASSERT_EQ(slow.size(), 1u);
  for (const SlotIndex slot : slow[0].slots) Write(slot);
  ASSERT_GT(Read(30000, {1, 1}).at(0).slots.size(), 200u) << "are to come back";
  int hang = 0;
  for (SlotIndex slot = 1000; slot < 1200; ++slot) {
    auto attempt = ledger_->BeginWrite(slot, now_);
    ASSERT_THAT(attempt, IsOk());
    now_ += std::chrono::milliseconds(2);
    if (attempt->place.drive == 0) {
      ++hang;
    } else {
      ledger_->EndWrite(&*attempt, absl::OkStatus(), now_);
    }
  }
  EXPECT_LE(hang, 10);
}

TEST_F(DriveLedgerOneByOneTest, ReadsShortlyAfterWritesSayNothing) {
  Open(800, 2);
  Read(1000, {1, 1});
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Read(50, {10, 1}).empty());
    for (SlotIndex slot = 0; slot < 4; ++slot) Write(slot);
  }
}

TEST_F(DriveLedgerOneByOneTest, ReadsThatFailSayNothing) {
  Open(800, 2);
  Read(1000, {1, 1});
  EXPECT_TRUE(Read(2000, {10, 1}, absl::UnavailableError("not now")).empty());
}

TEST(DriveLedgerTest, NothingLeavesWhereNobodyIsTold) {
  DriveLedger ledger(Options(80, {1e9, 1e9}));
  Clock::time_point now{};
  for (SlotIndex slot = 0; slot < 40; ++slot) {
    absl::StatusOr<WriteAttempt> attempt = ledger.BeginWrite(slot, now);
    ASSERT_THAT(attempt, IsOk());
    ledger.EndWrite(&*attempt, absl::OkStatus(), now);
  }
  for (int i = 0; i < 1000; ++i) {
    const auto read = ledger.BeginRead(static_cast<SlotIndex>(i % 40), now);
    ASSERT_THAT(read, IsOk());
    now += std::chrono::milliseconds(read->place.drive == 0 ? 100 : 1);
    ledger.EndRead(*read, absl::OkStatus(), now);
  }
  EXPECT_FALSE(ledger.TakeSlow().has_value()) << "there is nobody to move pages";
}

}  // namespace
}  // namespace sluice::io
