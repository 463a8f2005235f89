// Several drives under one store: places, shares, and what happens when one of them fails.
#include "io/drive_set.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "io/blocking_engine.h"
#include "io/drive_meter.h"
#include "io/memory_engine.h"
#include "io/page_store_parts.h"
#include "tests/support/gated_engine.h"
#include "tests/support/page_buffer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using testing::PageBuffer;
using Code = absl::StatusCode;

constexpr std::uint64_t kPage = 4096;

/// A drive in memory whose errors and pace are set while it runs.
struct FakeDrive {
  explicit FakeDrive(std::uint64_t bytes) : file(bytes) {}

  std::int64_t Perform(const IoCommand& command) {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    const int error = command.direction == IoDirection::kWrite ? write_error : read_error;
    return error != 0 ? -error : file.Perform(command);
  }

  MemoryFile file;
  std::atomic<int> delay_us{0};
  std::atomic<int> write_error{0};
  std::atomic<int> read_error{0};
};

/// How an operation ended. Shared with its callback, which may still be inside when the result is
/// out.
class Outcome {
 public:
  DoneFn Done() {
    return [promise = promise_](absl::Status status) { promise->set_value(std::move(status)); };
  }
  absl::Status Get() { return promise_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<absl::Status>> promise_ =
      std::make_shared<std::promise<absl::Status>>();
};

class DriveSetTest : public ::testing::Test {
 protected:
  void Open(std::uint32_t drives, SlotIndex slots) {
    DriveSetOptions options{
        .store = {.page_bytes = kPage,
                  .slots = slots,
                  .backoff = {.attempts_max = 2, .first_pause = std::chrono::microseconds(1)}}};
    for (std::uint32_t i = 0; i < drives; ++i) {
      options.directories.push_back("/drive" + std::to_string(i));
    }
    options.on_fenced = [this](FencedDrive fenced) {
      base::MutexLock lock(mutex_);
      fenced_.push_back(std::move(fenced));
    };
    std::vector<std::unique_ptr<PageStore>> stores;
    for (std::uint32_t i = 0; i < drives; ++i) stores.push_back(MakeStore(options));
    set_ = AssembleDriveSet(options, std::move(stores), workers_);
  }

  std::unique_ptr<PageStore> MakeStore(const DriveSetOptions& options) {
    PageStoreOptions store = options.store;
    store.slots = SlotsOfDrive(options);
    auto drive = std::make_shared<FakeDrive>(store.slots * kPage);
    drives_.push_back(drive);
    auto engine = BlockingEngine::Create(
        {.name = "fake", .threads = 1, .cpus = {}},
        [drive](const IoCommand& command) { return drive->Perform(command); });
    auto gate = std::make_unique<testing::GatedEngine>(*std::move(engine));
    gate->Open();
    gates_.push_back(gate.get());
    return AssemblePageStore(
        store,
        {.engine = std::move(gate), .engine_reason = "in memory", .spill_file = nullptr},
        workers_);
  }

  absl::Status Write(SlotIndex slot, std::uint64_t generation) {
    PageBuffer page(kPage);
    page.Fill(slot + 1000 * generation);
    Outcome done;
    set_->Write(slot, {1, slot, generation}, page.span(), done.Done());
    return done.Get();
  }

  absl::Status Read(SlotIndex slot, std::uint64_t generation) {
    PageBuffer page(kPage);
    Outcome done;
    set_->Read(slot, {1, slot, generation}, page.span(), done.Done());
    absl::Status status = done.Get();
    if (status.ok()) {
      EXPECT_TRUE(page.Holds(slot + 1000 * generation)) << slot;
    }
    return status;
  }

  /// Keeps eight writes in flight until `count` are done.
  void WriteMany(int count, std::uint64_t generation) {
    const auto slots = static_cast<SlotIndex>(count);
    std::latch done(count);
    std::vector<std::unique_ptr<PageBuffer>> pages;
    std::counting_semaphore<8> room(8);
    for (SlotIndex slot = 0; slot < slots; ++slot) {
      room.acquire();
      pages.push_back(std::make_unique<PageBuffer>(kPage));
      pages.back()->Fill(slot + 1000 * generation);
      set_->Write(slot, {1, slot, generation}, pages.back()->span(), [&](absl::Status status) {
        EXPECT_THAT(status, IsOk());
        room.release();
        done.count_down();
      });
    }
    done.wait();
  }

  std::vector<FencedDrive> fenced() const {
    base::MutexLock lock(mutex_);
    return fenced_;
  }
  std::uint64_t writes(std::size_t drive) const { return set_->stats().drives[drive].writes; }

  base::WorkerPool workers_{{.threads = 2, .name = "test-worker", .cpus = {}}};
  std::vector<std::shared_ptr<FakeDrive>> drives_;
  std::vector<testing::GatedEngine*> gates_;
  mutable base::Mutex mutex_;
  std::vector<FencedDrive> fenced_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PageStore> set_;
};

TEST_F(DriveSetTest, PagesComeBackFromWhicheverDriveHasThem) {
  Open(3, 30);
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    for (SlotIndex slot = 0; slot < 30; ++slot) ASSERT_THAT(Write(slot, generation), IsOk());
    for (SlotIndex slot = 0; slot < 30; ++slot) {
      EXPECT_THAT(Read(slot, generation), IsOk());
      EXPECT_THAT(Read(slot, generation + 1), HasCode(Code::kDataLoss)) << "another page";
    }
  }
  for (std::size_t drive = 0; drive < 3; ++drive) EXPECT_EQ(writes(drive), 30u);
  EXPECT_EQ(set_->stats().writes, 90u);
}

TEST_F(DriveSetTest, ASlotHoldsNothingBeforeAWriteAndAfterForget) {
  Open(2, 4);
  EXPECT_THAT(Read(3, 1), HasCode(Code::kNotFound));
  ASSERT_THAT(Write(3, 1), IsOk());
  set_->Forget(3);
  EXPECT_THAT(Read(3, 1), HasCode(Code::kNotFound));
  for (int round = 0; round < 10; ++round) {  // places are given back
    for (SlotIndex slot = 0; slot < 4; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
    for (SlotIndex slot = 0; slot < 4; ++slot) set_->Forget(slot);
  }
}

TEST_F(DriveSetTest, RefusesWhatAStoreRefuses) {
  Open(2, 4);
  EXPECT_THAT(Write(4, 1), IsStatus(Code::kInvalidArgument, "slot 4: the store has 4 slots"));
  EXPECT_THAT(Read(4, 1), HasCode(Code::kInvalidArgument));
  PageBuffer page(kPage);
  drives_[0]->delay_us = drives_[1]->delay_us = 20000;
  Outcome first;
  set_->Write(1, {1, 1, 1}, page.span(), first.Done());
  EXPECT_THAT(Write(1, 2), IsStatus(Code::kFailedPrecondition, "in flight"));
  EXPECT_THAT(first.Get(), IsOk());
  Outcome small;
  set_->Write(1, {1, 1, 1}, page.span().first(kPage / 2), small.Done());
  EXPECT_THAT(small.Get(), IsStatus(Code::kInvalidArgument, "a page has"));
}

TEST_F(DriveSetTest, ForgettingAPageOnItsWayLeavesTheSlotEmpty) {
  Open(2, 4);
  drives_[0]->delay_us = drives_[1]->delay_us = 20000;
  PageBuffer page(kPage);
  Outcome done;
  set_->Write(1, {1, 1, 1}, page.span(), done.Done());
  set_->Forget(1);
  EXPECT_THAT(done.Get(), IsOk());
  EXPECT_THAT(Read(1, 1), HasCode(Code::kNotFound));
}

TEST_F(DriveSetTest, APlaceThatIsReadIsNotGivenToAnother) {
  Open(1, 2);
  ASSERT_THAT(Write(0, 1), IsOk());
  drives_[0]->delay_us = 50000;  // one after the other
  PageBuffer first(kPage), second(kPage);
  Outcome first_done, second_done;
  set_->Read(0, {1, 0, 1}, first.span(), first_done.Done());
  set_->Read(0, {1, 0, 1}, second.span(), second_done.Done());
  set_->Forget(0);
  EXPECT_THAT(first_done.Get(), IsOk());
  EXPECT_THAT(Write(1, 1), IsOk());
  EXPECT_THAT(second_done.Get(), IsOk());
}

TEST_F(DriveSetTest, HastenReachesTheDriveThatHasTheWrite) {
  Open(2, 8);
  ASSERT_THAT(Write(0, 1), IsOk());  // to the first: the next goes to the second
  drives_[1]->delay_us = 50000;
  PageBuffer page(kPage);
  Outcome done;
  set_->Write(5, {1, 5, 1}, page.span(), done.Done());
  set_->Hasten(5);
  set_->Hasten(6);  // nothing is on its way
  EXPECT_THAT(done.Get(), IsOk());
  EXPECT_TRUE(gates_[0]->hastened().empty());
  EXPECT_EQ(gates_[1]->hastened().size(), 1u);
}

TEST_F(DriveSetTest, DrivesAreWrittenInProportionToWhatTheyShow) {
  // The paces are far apart, so that no load of the machine can bring them together.
  constexpr int kWrites = 200;
  Open(2, 2 * kWrites);
  drives_[0]->delay_us = 500;
  drives_[1]->delay_us = 25000;
  WriteMany(kWrites, 1);
  EXPECT_GT(writes(1), 0u);
  EXPECT_LT(writes(1), kWrites / 3u);
  EXPECT_GT(set_->stats().drives[0].bytes_per_second, set_->stats().drives[1].bytes_per_second);
}

TEST_F(DriveSetTest, ADriveThatSlowsDownGetsLess) {
  constexpr int kWrites = 200;
  Open(2, 4 * kWrites);
  drives_[0]->delay_us = drives_[1]->delay_us = 500;
  WriteMany(kWrites, 1);
  const std::uint64_t before = writes(0);
  EXPECT_GT(before, kWrites / 10u);
  drives_[0]->delay_us = 25000;
  WriteMany(kWrites, 2);
  EXPECT_LT(writes(0) - before, kWrites / 3u);
}

TEST_F(DriveSetTest, AWriteThatADriveRefusesGoesToTheNext) {
  Open(2, 8);
  drives_[0]->write_error = ENOSPC;
  for (SlotIndex slot = 0; slot < 4; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  EXPECT_EQ(writes(0), 0u);
  EXPECT_EQ(writes(1), 4u);
  EXPECT_THAT(Write(4, 1), HasCode(Code::kResourceExhausted)) << "the other is full";
  EXPECT_TRUE(fenced().empty()) << "a full drive has not failed";
  for (SlotIndex slot = 0; slot < 4; ++slot) EXPECT_THAT(Read(slot, 1), IsOk());
  drives_[0]->write_error = 0;
  EXPECT_THAT(Write(4, 1), IsOk());
}

TEST_F(DriveSetTest, AnErrorOfAllDrivesIsThatOfTheLast) {
  Open(2, 8);
  drives_[0]->write_error = drives_[1]->write_error = EIO;
  EXPECT_THAT(Write(1, 1), IsStatus(Code::kInternal, "drive /drive"));
  EXPECT_THAT(Read(1, 1), HasCode(Code::kNotFound));
  drives_[0]->write_error = drives_[1]->write_error = 0;
  EXPECT_THAT(Write(1, 2), IsOk());
  EXPECT_THAT(Read(1, 2), IsOk());
}

TEST_F(DriveSetTest, ADriveThatFailsIsFencedAndItsPagesAreNamed) {
  Open(2, 20);
  for (SlotIndex slot = 0; slot < 8; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[0]->write_error = EIO;
  for (SlotIndex slot = 8; slot < 14; ++slot) ASSERT_THAT(Write(slot, 1), IsOk()) << slot;
  ASSERT_EQ(fenced().size(), 1u);
  EXPECT_EQ(fenced()[0].directory, "/drive0");
  EXPECT_EQ(fenced()[0].slots.size(), 4u);
  EXPECT_THAT(fenced()[0].cause, HasCode(Code::kInternal));
  EXPECT_TRUE(set_->stats().drives[0].fenced);
  EXPECT_FALSE(set_->stats().drives[1].fenced);
  // It is written no more, even when it would take pages again, and still read.
  drives_[0]->write_error = 0;
  const std::vector<SlotIndex> slots = fenced()[0].slots;
  for (const SlotIndex slot : slots) EXPECT_THAT(Read(slot, 1), IsOk());
  EXPECT_EQ(writes(1), 10u) << "full";
  EXPECT_THAT(Write(15, 1), IsStatus(Code::kResourceExhausted, "no drive has room"));
  set_->Forget(13);
  EXPECT_THAT(Write(15, 1), IsOk());
  EXPECT_EQ(writes(0), 4u);
}

TEST_F(DriveSetTest, ADriveThatCannotBeReadIsFenced) {
  Open(2, 20);
  for (SlotIndex slot = 0; slot < 10; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[1]->read_error = EIO;
  int lost = 0;
  for (SlotIndex slot = 0; slot < 10; ++slot) {
    const absl::Status status = Read(slot, 1);
    if (status.ok()) continue;
    EXPECT_THAT(status, IsStatus(Code::kDataLoss, "drive /drive1"));
    ++lost;
  }
  EXPECT_EQ(lost, 5);
  ASSERT_EQ(fenced().size(), 1u);
  EXPECT_EQ(fenced()[0].directory, "/drive1");
}

TEST_F(DriveSetTest, ADriveThatTakesPagesAndGivesNoneBackIsFenced) {
  Open(2, 40);
  for (SlotIndex slot = 0; slot < 10; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[1]->read_error = EIO;
  for (SlotIndex slot = 0; slot < 10; ++slot) {
    (void)Read(slot, 1);
    ASSERT_THAT(Write(20 + slot, 1), IsOk());
  }
  EXPECT_EQ(fenced().size(), 1u);
}

TEST_F(DriveSetTest, ErrorsWithSuccessesBetweenDoNotFence) {
  Open(1, 8);
  for (int round = 0; round < 5; ++round) {
    drives_[0]->write_error = EIO;
    EXPECT_THAT(Write(0, 1), HasCode(Code::kInternal));
    EXPECT_THAT(Write(1, 1), HasCode(Code::kInternal));
    drives_[0]->write_error = 0;
    EXPECT_THAT(Write(2, 1), IsOk());
  }
  EXPECT_TRUE(fenced().empty());
}

TEST_F(DriveSetTest, DestructionWaitsForWritesThatMoveOn) {
  for (int round = 0; round < 20; ++round) {
    drives_.clear();
    Open(2, 16);
    drives_[0]->write_error = EIO;
    std::atomic<int> done = 0;
    std::vector<std::unique_ptr<PageBuffer>> pages;
    for (SlotIndex slot = 0; slot < 8; ++slot) {
      pages.push_back(std::make_unique<PageBuffer>(kPage));
      set_->Write(slot, {1, slot, 1}, pages.back()->span(), [&](absl::Status status) {
        EXPECT_THAT(status, IsOk());
        ++done;
      });
    }
    set_.reset();
    EXPECT_EQ(done, 8);
  }
}

/// Any order of calls, with errors that come and go: what is acknowledged and not fenced away is
/// read back as it was written.
TEST_F(DriveSetTest, RandomCallsAgreeWithAShadow) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    drives_.clear();
    constexpr SlotIndex kSlots = 24;
    Open(3, kSlots);
    std::map<SlotIndex, std::uint64_t> shadow;
    for (std::uint64_t step = 1; step <= 400; ++step) {
      const auto slot = static_cast<SlotIndex>(random() % kSlots);
      FakeDrive& drive = *drives_[random() % 3];
      if (random() % 10 == 0) drive.write_error = random() % 2 == 0 ? ENOSPC : 0;
      switch (random() % 4) {
        case 0:
          set_->Forget(slot);
          shadow.erase(slot);
          break;
        case 1:
          shadow.erase(slot);
          if (Write(slot, step).ok()) shadow[slot] = step;
          break;
        default:
          EXPECT_EQ(Read(slot, shadow.contains(slot) ? shadow[slot] : 0).ok(),
                    shadow.contains(slot));
      }
    }
  }
}

TEST(DriveSetCreateTest, MakesAFileInEveryDirectory) {
  const testing::TempDirectory first, second;
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  DriveSetOptions options{.store = {.page_bytes = kPage, .slots = 9},
                          .directories = {first.path(), second.path()}};
  const auto set = CreateDriveSet(options, workers);
  ASSERT_THAT(set, IsOk());
  ASSERT_EQ((*set)->stats().drives.size(), 2u);
  EXPECT_EQ((*set)->stats().drives[1].directory, second.path());
  EXPECT_EQ(first.entries() + second.entries(), 0);
  options.directories.push_back(first.path() + "/missing");
  EXPECT_THAT(CreateDriveSet(options, workers), HasCode(Code::kNotFound));
}

TEST(DriveMeterTest, CountsBusyTimeOnly) {
  DriveMeter meter;
  DriveMeter::Clock::time_point now{};
  for (int i = 0; i < 32; ++i) {
    meter.Begin(now);
    now += std::chrono::milliseconds(1);
    meter.End(1 << 20, now);
    now += std::chrono::seconds(1);  // idle
  }
  EXPECT_NEAR(meter.rate(), 1000.0 * (1 << 20), 1.0);
}

TEST(DriveMeterTest, OverlappingOperationsShareTheTime) {
  DriveMeter meter;
  DriveMeter::Clock::time_point now{};
  for (int i = 0; i < 4; ++i) meter.Begin(now);
  for (int i = 0; i < 64; ++i) {
    now += std::chrono::milliseconds(1);
    meter.End(1 << 20, now);
    meter.Begin(now);
  }
  EXPECT_NEAR(meter.rate(), 1000.0 * (1 << 20), 1.0);
}

}  // namespace
}  // namespace sluice::io
