// Which of several drives is written, by the rates that they show, in virtual time.
#include "io/drives/drive_ledger.h"

#include <algorithm>
#include <deque>
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

TEST(DriveLedgerTest, AFullDriveIsPassedOverAndGetsItsTurnAgain) {
  constexpr SlotIndex kSlots = 80;
  DriveLedger ledger(Options(kSlots, {1e9, 1e9}));
  std::vector<SlotIndex> on_first, on_second;
  Clock::time_point now{};
  const auto write = [&](SlotIndex slot) {
    absl::StatusOr<WriteAttempt> attempt = ledger.BeginWrite(slot, now);
    EXPECT_THAT(attempt, IsOk());
    now += std::chrono::milliseconds(1);
    ledger.EndWrite(&*attempt, absl::OkStatus(), now);
    return attempt->place.drive;
  };
  for (SlotIndex slot = 0; slot < kSlots; ++slot) {
    (write(slot) == 0 ? on_first : on_second).push_back(slot);
  }
  ASSERT_EQ(on_first.size(), 40u);
  for (; on_second.size() > 20; on_second.pop_back()) ledger.Forget(on_second.back());
  // Again and again to the second: the first has room for its one spare page only.
  int to_first = 0;
  for (int round = 0; round < 10; ++round) {
    for (const SlotIndex slot : on_second) to_first += write(slot) == 0 ? 1 : 0;
  }
  EXPECT_LE(to_first, 10);
  // With room again it gets its part, from the next write on: nothing is made up for.
  for (const SlotIndex slot : on_first) ledger.Forget(slot);
  to_first = 0;
  for (int i = 0; i < 10; ++i) to_first += write(on_first[static_cast<std::size_t>(i)]) == 0;
  EXPECT_GE(to_first, 4);
  EXPECT_LE(to_first, 6);
}

}  // namespace
}  // namespace sluice::io
