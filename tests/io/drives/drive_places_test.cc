// Drive of each write, by the rates that the drives show, in virtual time; and the fencing of
// drives.
#include "io/drives/drive_places.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "io/store/medium_fault.h"
#include "io/store/page_store_parts.h"
#include "tests/support/status_matchers.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::IsStatus;
using Clock = DrivePlaces::Clock;
using Code = absl::StatusCode;

constexpr std::uint64_t kLargePage = std::uint64_t{1} << 20;

DrivePlaces MakePlaces(SlotIndex slots, const std::vector<double>& rates, int errors_to_fence = 3) {
  DrivePlacesOptions options{.slots = slots, .errors_to_fence = errors_to_fence};
  for (const SlotIndex share : DriveShares::DivideSlots(slots, rates)) {
    options.places.push_back(WithSpares(share));
    options.directories.push_back("/drive" + std::to_string(options.directories.size()));
  }
  return DrivePlaces(options, DriveShares(rates.size(), kLargePage, rates));
}

/// Writes pages to drives that take one after the other, each at its own pace. The oldest page is
/// forgotten when there are more than `kept`.
class VirtualWriter {
 public:
  VirtualWriter(DrivePlaces& places, SlotIndex slots, std::size_t kept, std::vector<double> rates)
      : places_(places), slots_(slots), kept_(kept), rates_(std::move(rates)) {
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
      places_.Forget(pages_.front());
      pages_.pop_front();
    }
    const SlotIndex slot = next_++ % slots_;
    pages_.push_back(slot);
    const absl::StatusOr<WriteAttempt> attempt = places_.BeginWrite(slot, now_);
    EXPECT_THAT(attempt, IsOk());
    const std::uint32_t drive = attempt->drive;
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
    const DrivePlaces::WriteEnd end = places_.EndWrite(&first.attempt, absl::OkStatus(), now_);
    EXPECT_FALSE(end.again || end.fenced.has_value());
  }

  DrivePlaces& places_;
  const SlotIndex slots_;
  const std::size_t kept_;
  std::vector<double> rates_;
  std::vector<Clock::time_point> free_at_;
  std::priority_queue<Underway, std::vector<Underway>, std::greater<>> underway_;
  std::deque<SlotIndex> pages_;
  SlotIndex next_ = 0;
  Clock::time_point now_{};
};

TEST(DrivePlacesTest, WritesAreInProportionToTheRatesFromTheStart) {
  DrivePlaces places = MakePlaces(4000, {2e9, 5e8});
  VirtualWriter writer(places, 4000, 1000, {2e9, 5e8});
  EXPECT_NEAR(writer.Write(100), 0.8, 0.02);
  EXPECT_NEAR(writer.Write(1000), 0.8, 0.02);
}

TEST(DrivePlacesTest, RatesThatWereMeasuredWronglyAreCorrected) {
  DrivePlaces places = MakePlaces(4000, {1e9, 1e9});
  VirtualWriter writer(places, 4000, 1000, {2e9, 5e8});
  writer.Write(400);
  EXPECT_NEAR(writer.Write(1000), 0.8, 0.03);
  EXPECT_NEAR(places.shares().rate(0), 2e9, 1e8);
  EXPECT_NEAR(places.shares().rate(1), 5e8, 3e7);
  EXPECT_EQ(places.shares().rate_at_start(1), 1e9);
}

TEST(DrivePlacesTest, ADriveThatBecomesFourTimesSlowerGetsAsMuchLess) {
  DrivePlaces places = MakePlaces(4000, {1e9, 1e9});
  VirtualWriter writer(places, 4000, 1000, {1e9, 1e9});
  EXPECT_NEAR(writer.Write(1000), 0.5, 0.02);
  writer.SetRate(0, 2.5e8);
  writer.Write(400);
  EXPECT_NEAR(writer.Write(1000), 0.2, 0.03);
  writer.SetRate(0, 1e9);
  writer.Write(800);  // a slow drive gets few writes, so its recovery shows late
  EXPECT_NEAR(writer.Write(1000), 0.5, 0.03);
}

TEST(DrivePlacesTest, AFullDriveIsPassedOverAndGetsItsTurnAgain) {
  constexpr SlotIndex kSlots = 80;
  DrivePlaces places = MakePlaces(kSlots, {1e9, 1e9});
  std::vector<SlotIndex> on_first, on_second;
  Clock::time_point now{};
  const auto write = [&](SlotIndex slot) {
    places.Forget(slot);
    absl::StatusOr<WriteAttempt> attempt = places.BeginWrite(slot, now);
    EXPECT_THAT(attempt, IsOk());
    now += std::chrono::milliseconds(1);
    places.EndWrite(&*attempt, absl::OkStatus(), now);
    return attempt->drive;
  };
  for (SlotIndex slot = 0; slot < kSlots; ++slot) {
    (write(slot) == 0 ? on_first : on_second).push_back(slot);
  }
  ASSERT_EQ(on_first.size(), 40u);
  for (; on_second.size() > 20; on_second.pop_back()) places.Forget(on_second.back());
  // The first drive has room for its one spare page only.
  int to_first = 0;
  for (int round = 0; round < 10; ++round) {
    for (const SlotIndex slot : on_second) to_first += write(slot) == 0 ? 1 : 0;
  }
  EXPECT_LE(to_first, 10);
  // A drive with room again gets its share from the next write on, and no more to make up for it.
  for (const SlotIndex slot : on_first) places.Forget(slot);
  to_first = 0;
  for (int i = 0; i < 10; ++i) to_first += write(on_first[static_cast<std::size_t>(i)]) == 0;
  EXPECT_GE(to_first, 4);
  EXPECT_LE(to_first, 6);
}

TEST(DrivePlacesTest, ADriveThatLostPagesHasAsManyPlacesLess) {
  constexpr SlotIndex kSlots = 40;
  DrivePlaces places = MakePlaces(kSlots, {1e9, 1e9}, 100);
  const auto write = [&places](SlotIndex slot) {
    absl::StatusOr<WriteAttempt> attempt = places.BeginWrite(slot, {});
    if (attempt.ok()) places.EndWrite(&*attempt, absl::OkStatus(), {});
    return attempt.status();
  };
  for (SlotIndex slot = 0; slot < kSlots; ++slot) ASSERT_THAT(write(slot), IsOk());
  for (const SlotIndex slot : {0u, 2u, 2u, 4u}) {  // slot 2 says so twice
    ASSERT_THAT(places.BeginRead(slot, {}), IsOk());
    places.EndRead(slot, MarkMediumFault(absl::DataLossError("EIO")), {});
  }
  for (const SlotIndex slot : {0u, 2u, 4u}) places.Forget(slot);
  EXPECT_THAT(write(0), IsOk()) << "each drive has one to spare";
  EXPECT_THAT(write(2), IsOk());
  EXPECT_THAT(write(4),
              IsStatus(Code::kResourceExhausted,
                       "slot 4: no drive has room, 3 places lost a page and are used no more"));
  places.Forget(6);
  EXPECT_THAT(write(4), IsOk());
}

// --- fencing ----------------------------------------------------------------------------------

/// Two drives that take pages in turn. The first has the pages of even slots.
class FencingTest : public ::testing::Test {
 protected:
  static constexpr SlotIndex kSlots = 40;

  void Open(int errors_to_fence, std::size_t drives = 2) {
    places_.emplace(MakePlaces(kSlots, std::vector<double>(drives, 1e9), errors_to_fence));
    for (SlotIndex slot = 0; slot < kSlots / 2; ++slot) {
      absl::StatusOr<WriteAttempt> attempt = places_->BeginWrite(slot, now_);
      ASSERT_THAT(attempt, IsOk());
      ASSERT_EQ(attempt->drive, slot % drives);
      places_->EndWrite(&*attempt, absl::OkStatus(), now_);
    }
  }

  /// A write that ends on the first drive with `status`: whether that fences the drive.
  bool Write(const absl::Status& status) {
    for (;;) {
      const SlotIndex slot = next_++;
      places_->Forget(slot);
      absl::StatusOr<WriteAttempt> attempt = places_->BeginWrite(slot, now_);
      EXPECT_THAT(attempt, IsOk());
      const bool first = attempt->drive == 0;
      DrivePlaces::WriteEnd end =
          places_->EndWrite(&*attempt, first ? status : absl::OkStatus(), now_);
      const bool fences = end.fenced.has_value();
      if (fences) fenced_ = std::move(*end.fenced);
      if (end.again) places_->EndWrite(&*attempt, absl::OkStatus(), now_);
      places_->Forget(slot);
      if (first) return fences;
    }
  }

  /// A read of a slot of the first drive: whether its end fences the drive.
  bool Read(SlotIndex slot, const absl::Status& status) {
    const absl::StatusOr<std::uint32_t> drive = places_->BeginRead(slot, now_);
    EXPECT_THAT(drive, IsOk());
    EXPECT_EQ(*drive, 0u);
    std::optional<FencedDrive> fenced = places_->EndRead(slot, status, now_);
    if (fenced.has_value()) fenced_ = *fenced;
    return fenced.has_value();
  }

  std::optional<DrivePlaces> places_;
  FencedDrive fenced_;
  SlotIndex next_ = kSlots / 2;
  Clock::time_point now_{};
};

TEST_F(FencingTest, ErrorsWithSuccessesBetweenDoNotFence) {
  Open(3);
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(Write(absl::InternalError("EIO")));
    EXPECT_FALSE(Write(absl::InternalError("EIO")));
    EXPECT_FALSE(Write(absl::OkStatus()));
  }
  EXPECT_FALSE(places_->fenced(0));
}

TEST_F(FencingTest, ThreeInARowFenceOnce) {
  Open(3);
  EXPECT_FALSE(Read(0, absl::DataLossError("EIO")));
  EXPECT_FALSE(Write(absl::OkStatus()));  // the drive still takes pages
  EXPECT_FALSE(Read(0, absl::DataLossError("EIO")));
  EXPECT_TRUE(Read(0, absl::DataLossError("the last")));
  EXPECT_THAT(fenced_.cause, IsStatus(Code::kDataLoss, "3 errors in a row, the last: the last"));
  EXPECT_EQ(fenced_.directory, "/drive0");
  EXPECT_EQ(fenced_.slots.size(), kSlots / 4);
  EXPECT_FALSE(Read(0, absl::DataLossError("EIO"))) << "the drive is fenced already";
  EXPECT_FALSE(Read(0, absl::OkStatus()));
  EXPECT_TRUE(places_->fenced(0));
}

TEST_F(FencingTest, TheLastDriveIsNotFenced) {
  Open(1, 1);
  EXPECT_FALSE(Write(absl::InternalError("EIO")));
  EXPECT_FALSE(Read(0, absl::DataLossError("EIO")));
  EXPECT_FALSE(places_->fenced(0));
  Open(1);
  EXPECT_TRUE(Write(absl::InternalError("EIO")));
}

TEST_F(FencingTest, OnlyReadsThatLoseAPageCount) {
  Open(1);
  EXPECT_FALSE(Read(0, absl::InternalError("EBADF")));
  EXPECT_FALSE(Read(0, absl::UnavailableError("EAGAIN")));
  EXPECT_FALSE(Read(0, absl::NotFoundError("nothing")));
  EXPECT_FALSE(Read(0, MarkWithoutIo(absl::DataLossError("holds another"))));
  EXPECT_FALSE(places_->fenced(0));
  EXPECT_TRUE(Read(0, MarkMediumFault(absl::DataLossError("EIO"))));
}

TEST_F(FencingTest, ReadsOfADriveThatIsGoneCountByThePage) {
  Open(3);
  const absl::Status gone = MarkDriveFault(absl::InternalError("EREMOTEIO"));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(Read(6, gone)) << "perhaps this page alone";
  EXPECT_FALSE(Read(8, gone));
  EXPECT_TRUE(Read(6, gone));
}

TEST_F(FencingTest, APageThatIsReadBetweenThemClearsTheDrive) {
  Open(2);
  const absl::Status gone = MarkDriveFault(absl::InternalError("ENODEV"));
  for (SlotIndex slot = 0; slot < 10; slot += 2) {
    EXPECT_FALSE(Read(slot, gone));
    EXPECT_FALSE(Read(18, absl::OkStatus()));
  }
}

TEST_F(FencingTest, WritesThatFailForAnotherReasonDoNotFence) {
  Open(1);
  EXPECT_FALSE(Write(absl::ResourceExhaustedError("ENOSPC")));
  EXPECT_FALSE(Write(absl::InvalidArgumentError("a page has")));
  EXPECT_FALSE(Write(absl::UnavailableError("EAGAIN")));
}

TEST_F(FencingTest, OnlyWritesThatAnotherDriveMayTakeGoOn) {
  Open(3);
  const auto goes_on = [this](const absl::Status& status) {
    absl::StatusOr<WriteAttempt> attempt = places_->BeginWrite(kSlots - 1, now_);
    EXPECT_THAT(attempt, IsOk());
    const std::uint32_t drive = attempt->drive;
    const bool again = places_->EndWrite(&*attempt, status, now_).again;
    if (again) {
      EXPECT_NE(attempt->drive, drive);
      places_->EndWrite(&*attempt, absl::OkStatus(), now_);
    }
    places_->Forget(kSlots - 1);
    return again;
  };
  EXPECT_TRUE(goes_on(absl::InternalError("EIO")));
  EXPECT_TRUE(goes_on(absl::UnavailableError("EAGAIN")));
  EXPECT_TRUE(goes_on(absl::ResourceExhaustedError("ENOSPC")));
  EXPECT_FALSE(goes_on(absl::InvalidArgumentError("a page has")));
  EXPECT_FALSE(goes_on(absl::OkStatus()));
}

}  // namespace
}  // namespace sluice::io
