// Which of several drives is written, and what leaves one that has become slow, in virtual time:
// both follow the rates that drives show.
#include "io/drive_balance.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "io/drive_ledger.h"
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

TEST(DriveBalanceTest, WritesAreInProportionToTheRatesFromTheStart) {
  DriveLedger ledger(Options(4000, {2e9, 5e8}));
  VirtualWriter writer(ledger, 4000, 1000, {2e9, 5e8});
  EXPECT_NEAR(writer.Write(100), 0.8, 0.02);
  EXPECT_NEAR(writer.Write(1000), 0.8, 0.02);
}

TEST(DriveBalanceTest, RatesThatWereMeasuredWronglyAreCorrected) {
  DriveLedger ledger(Options(4000, {1e9, 1e9}));
  VirtualWriter writer(ledger, 4000, 1000, {2e9, 5e8});
  writer.Write(400);
  EXPECT_NEAR(writer.Write(1000), 0.8, 0.03);
  EXPECT_NEAR(ledger.StatsOf(0).bytes_per_second, 2e9, 1e8);
  EXPECT_NEAR(ledger.StatsOf(1).bytes_per_second, 5e8, 3e7);
  EXPECT_EQ(ledger.StatsOf(1).bytes_per_second_at_start, 1e9);
}

TEST(DriveBalanceTest, ADriveThatBecomesFourTimesSlowerGetsAsMuchLess) {
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

TEST(DriveBalanceTest, AFullDriveIsPassedOverAndGetsItsTurnAgain) {
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

/// 64 reads, half of them from each of two drives, which take this long.
std::optional<DriveBalance::Excess> Period(DriveBalance& balance,
                                           std::vector<double> seconds,
                                           const std::vector<DriveBalance::Load>& loads) {
  for (int i = 0; i < 64; ++i) {
    const auto drive = static_cast<std::uint32_t>(i % 2);
    EXPECT_EQ(balance.NoteRead(drive, seconds[drive]), i == 63);
  }
  return balance.Weigh(loads);
}

const std::vector<DriveBalance::Load> kEvenLoads = {{.pages = 600, .room = 400},
                                                    {.pages = 600, .room = 400}};

TEST(DriveBalanceTest, ADriveIsSlowWhoseReadsTakeFarLongerForThreePeriods) {
  DriveBalance balance(2, 64);
  EXPECT_FALSE(Period(balance, {5, 1}, kEvenLoads).has_value());
  EXPECT_FALSE(Period(balance, {5, 1}, kEvenLoads).has_value());
  const auto excess = Period(balance, {5, 1}, kEvenLoads);
  ASSERT_TRUE(excess.has_value());
  EXPECT_EQ(excess->drive, 0u);
  EXPECT_EQ(excess->seconds, 5);
  EXPECT_EQ(excess->seconds_elsewhere, 1);
  EXPECT_EQ(excess->pages, 37u) << "a sixteenth of 600";
}

TEST(DriveBalanceTest, ADriveThatIsSlowNowAndThenIsNot) {
  DriveBalance balance(2, 64);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(Period(balance, {5, 1}, kEvenLoads).has_value());
    EXPECT_FALSE(Period(balance, {5, 1}, kEvenLoads).has_value());
    EXPECT_FALSE(Period(balance, {i % 2 == 0 ? 1.4 : 0.7, 1}, kEvenLoads).has_value());
  }
}

TEST(DriveBalanceTest, AFewReadsThatTakeLongAreNoSlowDrive) {
  DriveBalance balance(2, 64);
  for (int period = 0; period < 10; ++period) {
    for (int i = 0; i < 64; ++i) {
      const bool first = i % 2 == 0;
      balance.NoteRead(first ? 0 : 1, first && i < 28 ? 100.0 : 1.0);
    }
    EXPECT_FALSE(balance.Weigh(kEvenLoads).has_value());
  }
}

TEST(DriveBalanceTest, WhatIsToLeaveHasRoomElsewhereAndIsWorthIt) {
  const auto pages = [](const std::vector<DriveBalance::Load>& loads) -> SlotIndex {
    DriveBalance balance(2, 64);
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(Period(balance, {4, 1}, loads).has_value());
    const auto excess = Period(balance, {4, 1}, loads);
    return excess.has_value() ? excess->pages : 0;
  };
  EXPECT_EQ(pages({{.pages = 800, .room = 0}, {.pages = 800, .room = 1000}}), 50u);
  EXPECT_EQ(pages({{.pages = 800, .room = 0}, {.pages = 60, .room = 1000}}), 10u)
      << "the other has so few that it would turn over";
  EXPECT_EQ(pages({{.pages = 800, .room = 0}, {.pages = 800, .room = 30}}), 30u);
  EXPECT_EQ(pages({{.pages = 80000, .room = 0}, {.pages = 80000, .room = 77}}), 0u);
  EXPECT_EQ(pages({{.pages = 10, .room = 0}, {.pages = 1270, .room = 99}}), 0u)
      << "so that it is read now and then";
  EXPECT_EQ(pages({{.pages = 800, .room = 9}, {.pages = 800, .room = 0}}), 0u);
  EXPECT_EQ(pages({{.pages = 800, .room = 9}, {.pages = 0, .room = 99, .fenced = true}}), 0u);
  EXPECT_EQ(pages({{.pages = 800, .room = 9, .fenced = true}, {.pages = 800, .room = 99}}), 0u);
}

TEST(DriveBalanceTest, WhatIsNotEnoughIsDoubled) {
  DriveBalance balance(2, 64);
  std::vector<SlotIndex> told;
  for (int i = 1; i <= 19; ++i) {
    const auto excess = Period(balance, {5, 1}, kEvenLoads);
    EXPECT_EQ(excess.has_value(), i % 4 == 3) << i << ": a period goes by, then three tell";
    if (excess.has_value()) told.push_back(excess->pages);
  }
  EXPECT_EQ(told, (std::vector<SlotIndex>{37, 75, 150, 300, 300}));
}

TEST(DriveBalanceTest, WhatTurnsBackIsAQuarterAndToldLessAndLessOften) {
  DriveBalance balance(2, 64);
  std::vector<int> told;
  std::vector<SlotIndex> pages;
  bool first = true;
  for (int i = 1; i <= 64; ++i) {
    const auto excess =
        Period(balance, first ? std::vector{5.0, 1.0} : std::vector{1.0, 5.0}, kEvenLoads);
    if (!excess.has_value()) continue;
    EXPECT_EQ(excess->drive, first ? 0u : 1u);
    told.push_back(i);
    pages.push_back(excess->pages);
    first = !first;
  }
  EXPECT_EQ(told, (std::vector<int>{3, 7, 12, 19, 30, 49}));
  EXPECT_EQ(pages, (std::vector<SlotIndex>{37, 9, 9, 9, 9, 9}));
}

TEST(DriveBalanceTest, ADriveThatIsHardlyReadIsNotWeighed) {
  DriveBalance balance(3, 64);
  int ended = 0;
  for (int i = 0; i < 3000; ++i) {
    // The third is quick, but 1 in 100 is too few of a period to say so.
    const std::uint32_t drive = i % 100 == 0 ? 2 : i % 2 == 0 ? 1 : 0;
    if (!balance.NoteRead(drive, drive == 2 ? 1 : 5)) continue;
    ++ended;
    EXPECT_FALSE(balance.Weigh(std::vector<DriveBalance::Load>(3, {.pages = 9, .room = 9})));
  }
  EXPECT_EQ(ended, 3000 / 512);
}

/// Drives that serve several requests at a time, a number of which are always outstanding: reads of
/// pages at random, each of which is written anew once it has been told to leave.
class ClosedLoop {
 public:
  static constexpr SlotIndex kPages = 1000;

  struct Load {
    std::size_t servers = 1;  ///< of each drive
    std::size_t depth = 16;
    bool one_disk = false;  ///< the drives are directories of it
    double writes = 0;      ///< share of operations that overwrite a page
  };

  ClosedLoop(const Load& load, SlotIndex slots) : load_(load) {
    DriveSetOptions options = Options(slots, {1e9, 1e9});
    options.on_slow = [](const SlowDrive&) {};
    ledger_.emplace(options);
    free_at_.assign(2, std::vector<Clock::time_point>(load.servers));
    for (SlotIndex slot = 0; slot < kPages; ++slot) Start(slot, true);
  }

  DriveLedger& ledger() { return *ledger_; }
  /// How much longer than at first reads and writes of a drive take.
  void Slow(std::uint32_t drive, double reads, double writes) { slow_[drive] = {reads, writes}; }
  void set_writes(double share) { load_.writes = share; }
  /// Operations per second.
  double Run(int count) {
    const Clock::time_point start = now_;
    for (int i = 0; i < count; ++i) Start(AnyPage(), uniform_(random_) < load_.writes);
    return count / std::chrono::duration<double>(now_ - start).count();
  }
  std::uint64_t rebalanced() const {
    return ledger_->StatsOf(0).rebalanced + ledger_->StatsOf(1).rebalanced;
  }
  std::uint64_t rewritten() const { return rewritten_; }

 private:
  struct Underway {
    Clock::time_point end;
    std::optional<ReadAttempt> read;
    std::optional<WriteAttempt> write;
    bool operator>(const Underway& other) const { return end > other.end; }
  };

  SlotIndex AnyPage() {
    for (;;) {
      const auto slot = static_cast<SlotIndex>(random_() % kPages);
      if (!busy_.contains(slot)) return slot;
    }
  }

  void Start(SlotIndex slot, bool writes) {
    while (underway_.size() >= load_.depth) EndOne();
    busy_.insert(slot);
    Underway next;
    if (writes) {
      absl::StatusOr<WriteAttempt> write = ledger_->BeginWrite(slot, now_);
      ASSERT_THAT(write, IsOk());
      told_.erase(slot);
      next.write = *std::move(write);
    } else {
      absl::StatusOr<ReadAttempt> read = ledger_->BeginRead(slot, now_);
      ASSERT_THAT(read, IsOk());
      next.read = *read;
    }
    next.end = Serve(writes ? next.write->place.drive : next.read->place.drive, writes);
    underway_.push(next);
  }

  Clock::time_point Serve(std::uint32_t drive, bool writes) {
    const double mean = 1e-3 * static_cast<double>(load_.servers) *
                        (writes ? slow_[drive].second : slow_[drive].first);
    const std::chrono::duration<double> seconds(-mean * std::log(1 - uniform_(random_)));
    auto& servers = free_at_[load_.one_disk ? 0 : drive];
    auto& first = *std::min_element(servers.begin(), servers.end());
    first = std::max(first, now_) + std::chrono::duration_cast<Clock::duration>(seconds);
    return first;
  }

  void EndOne() {
    Underway first = underway_.top();
    underway_.pop();
    now_ = first.end;
    if (first.write.has_value()) {
      EXPECT_FALSE(ledger_->EndWrite(&*first.write, absl::OkStatus(), now_).again);
      busy_.erase(first.write->slot);
      return;
    }
    const SlotIndex slot = first.read->slot;
    EXPECT_FALSE(ledger_->EndRead(*first.read, absl::OkStatus(), now_).has_value());
    if (const std::optional<SlowDrive> slow = ledger_->TakeSlow()) {
      told_.insert(slow->slots.begin(), slow->slots.end());
    }
    busy_.erase(slot);
    if (!told_.contains(slot)) return;
    ++rewritten_;
    Start(slot, true);
  }

  Load load_;
  std::mt19937_64 random_{7};
  std::uniform_real_distribution<double> uniform_;
  std::optional<DriveLedger> ledger_;
  std::vector<std::pair<double, double>> slow_ = {{1, 1}, {1, 1}};
  std::vector<std::vector<Clock::time_point>> free_at_;
  std::priority_queue<Underway, std::vector<Underway>, std::greater<>> underway_;
  std::set<SlotIndex> busy_;
  std::set<SlotIndex> told_;
  std::uint64_t rewritten_ = 0;
  Clock::time_point now_{};
};

/// Drives that need one request at a time or many, where their reads queue and where they do not.
class ReadOnlyTest : public ::testing::TestWithParam<std::tuple<std::size_t, double>> {};

TEST_P(ReadOnlyTest, PagesLeaveADriveThatHasBecomeSlowAndComeBack) {
  const auto [servers, slower] = GetParam();
  ClosedLoop loop({.servers = servers, .depth = 32}, 4 * ClosedLoop::kPages);
  const double well = loop.Run(20000);
  loop.Slow(0, slower, slower);
  loop.Run(40000);
  const std::uint64_t settled = loop.rewritten();
  const double possible = well / 2 * (1 + 1 / slower);
  EXPECT_GT(loop.Run(20000), 0.8 * possible);
  EXPECT_LT(loop.rewritten() - settled, 400u) << "of 20000";
  loop.Slow(0, 1, 1);
  loop.Run(200000);
  EXPECT_GT(loop.Run(20000), 0.75 * well);
}

INSTANTIATE_TEST_SUITE_P(Drives,
                         ReadOnlyTest,
                         ::testing::Combine(::testing::Values(1, 4, 16), ::testing::Values(3, 10)));

TEST(DriveBalanceTest, DirectoriesOfOneDiskMoveNothing) {
  for (const double writes : {0.0, 0.3}) {
    for (const std::size_t depth : {1, 4, 16}) {
      ClosedLoop loop({.servers = 4, .depth = depth, .one_disk = true, .writes = writes}, 2000);
      loop.Run(100000);
      EXPECT_EQ(loop.rebalanced(), 0u) << writes << " writes, depth " << depth;
    }
  }
}

/// One drive is quick to read, the other to write, and each is asked for in turn.
TEST(DriveBalanceTest, WhatTurnsBackAgainAndAgainCostsLessAndLess) {
  ClosedLoop loop({.servers = 1, .depth = 16}, 2000);
  loop.Slow(0, 1, 3);
  loop.Slow(1, 3, 1);
  const auto phases = [&](int count) {
    const std::uint64_t before = loop.rewritten();
    for (int phase = 0; phase < count; ++phase) {
      loop.set_writes(phase % 2 == 0 ? 0 : 0.5);
      loop.Run(4000);
    }
    return loop.rewritten() - before;
  };
  EXPECT_GT(phases(20), 0u);
  phases(60);
  EXPECT_LT(phases(20), 400u) << "of 80000";
}

TEST(DriveBalanceTest, NothingLeavesWhereNobodyIsTold) {
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
