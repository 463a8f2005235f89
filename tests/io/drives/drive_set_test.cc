// Several drives under one store: places and shares.
#include "io/drives/drive_set.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/io/drives/drive_set_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::DriveSetFixture;
using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using testing::Outcome;
using testing::PageBuffer;
using testing::TempDirectory;
using Code = absl::StatusCode;

class DriveSetTest : public DriveSetFixture {};

TEST_F(DriveSetTest, PagesComeBackFromWhicheverDriveHasThem) {
  Open(3, 30);
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    for (SlotIndex slot = 0; slot < 30; ++slot) ASSERT_THAT(Write(slot, generation), IsOk());
    for (SlotIndex slot = 0; slot < 30; ++slot) {
      EXPECT_THAT(Read(slot, generation), IsOk());
      EXPECT_THAT(Read(slot, generation + 1), HasCode(Code::kDataLoss)) << "another page";
    }
  }
  for (std::size_t drive = 0; drive < 3; ++drive)
    EXPECT_GE(writes(drive), 24u) << "24 of 30 at least";
  EXPECT_EQ(store_->stats().writes, 90u);
}

TEST_F(DriveSetTest, ASlotHoldsNothingBeforeAWriteAndAfterForget) {
  Open(2, 4);
  EXPECT_THAT(Read(3, 1), HasCode(Code::kNotFound));
  ASSERT_THAT(Write(3, 1), IsOk());
  store_->Forget(3);
  EXPECT_THAT(Read(3, 1), HasCode(Code::kNotFound));
  for (int round = 0; round < 10; ++round) {  // places are given back
    for (SlotIndex slot = 0; slot < 4; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
    for (SlotIndex slot = 0; slot < 4; ++slot) store_->Forget(slot);
  }
}

TEST_F(DriveSetTest, APageIsFoundInTheFileOfItsDrive) {
  const TempDirectory first;
  const TempDirectory second;
  const auto workers = base::WorkerPool::Create({.threads = 1});
  ASSERT_THAT(workers, IsOk());
  DriveSetOptions options;
  options.store.page_bytes = kPage;
  options.store.slots = 8;
  options.directories = {first.path(), second.path()};
  options.rates = {1e9, 1e9};
  const auto set = CreateDriveSet(options, **workers);
  ASSERT_THAT(set, IsOk());
  EXPECT_THAT((*set)->CheckMappable(), IsOk());
  std::set<int> files;
  for (SlotIndex slot = 0; slot < 8; ++slot) {
    EXPECT_THAT((*set)->FindPart(slot), HasCode(Code::kNotFound));
    PageBuffer page(kPage);
    std::fill(page.span().begin(), page.span().end(), std::byte(slot + 1));
    Outcome written;
    (*set)->Write(slot, {1, slot, 1}, page.span(), written.Done());
    ASSERT_THAT(written.Get(), IsOk());
    const auto part = (*set)->FindPart(slot);
    ASSERT_THAT(part, IsOk());
    void* const mapped =
        mmap(nullptr, kPage, PROT_READ, MAP_SHARED, part->fd, static_cast<off_t>(part->offset));
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_EQ(static_cast<const std::byte*>(mapped)[kPage - 1], std::byte(slot + 1));
    munmap(mapped, kPage);
    files.insert(part->fd);
  }
  EXPECT_EQ(files.size(), 2u) << "both drives";
  (*set)->Forget(3);
  EXPECT_THAT((*set)->FindPart(3), HasCode(Code::kNotFound));
}

TEST_F(DriveSetTest, RefusesWhatAStoreRefuses) {
  Open(2, 4);
  EXPECT_THAT(Write(4, 1), IsStatus(Code::kInvalidArgument, "slot 4: the store has 4 slots"));
  EXPECT_THAT(Read(4, 1), HasCode(Code::kInvalidArgument));
  PageBuffer page(kPage);
  drives_[0]->delay_us = drives_[1]->delay_us = 20000;
  Outcome first;
  store_->Write(1, {1, 1, 1}, page.span(), first.Done());
  EXPECT_THAT(Write(1, 2), IsStatus(Code::kFailedPrecondition, "in flight"));
  EXPECT_THAT(first.Get(), IsOk());
  Outcome small;
  store_->Write(1, {1, 1, 1}, page.span().first(kPage / 2), small.Done());
  EXPECT_THAT(small.Get(), IsStatus(Code::kInvalidArgument, "a page has"));
}

TEST_F(DriveSetTest, ForgettingAPageOnItsWayLeavesTheSlotEmpty) {
  Open(2, 4);
  drives_[0]->delay_us = drives_[1]->delay_us = 20000;
  PageBuffer page(kPage);
  Outcome done;
  store_->Write(1, {1, 1, 1}, page.span(), done.Done());
  store_->Forget(1);
  EXPECT_THAT(done.Get(), IsOk());
  EXPECT_THAT(Read(1, 1), HasCode(Code::kNotFound));
}

TEST_F(DriveSetTest, APlaceThatIsReadIsNotGivenToAnother) {
  Open(1, 2);
  ASSERT_THAT(Write(0, 1), IsOk());
  drives_[0]->delay_us = 50000;  // one after the other
  PageBuffer first(kPage), second(kPage);
  Outcome first_done, second_done;
  store_->Read(0, {1, 0, 1}, first.span(), first_done.Done());
  store_->Read(0, {1, 0, 1}, second.span(), second_done.Done());
  store_->Forget(0);
  EXPECT_THAT(first_done.Get(), IsOk());
  EXPECT_THAT(Write(1, 1), IsOk());
  EXPECT_THAT(second_done.Get(), IsOk());
}

TEST_F(DriveSetTest, AChildOfForkIsRefusedAndChangesNothing) {
  Open(2, 8);
  const PageBuffer page(kPage);
  for (std::uint64_t round = 1; round <= 10; ++round) {
    std::vector<Outcome> written(8);
    for (SlotIndex slot = 0; slot < 8; ++slot) {
      store_->Write(slot, {1, slot, round}, page.span(), written[slot].Done());
    }
    const std::string heard = testing::RunInChild([this, &page] {
      alarm(10);  // end of a child that waits for ever
      std::string codes;
      const auto note = [&codes](const absl::Status& status) {
        codes += absl::StatusCodeToString(status.code()) + " ";
      };
      PageBuffer into(kPage);
      store_->Write(3, {1, 3, 99}, page.span(), note);
      store_->Read(0, {1, 0, 1}, into.span(), note);
      return codes;
    });
    EXPECT_EQ(heard, "FAILED_PRECONDITION FAILED_PRECONDITION ");
    for (Outcome& outcome : written) EXPECT_THAT(outcome.Get(), IsOk());
  }
}

TEST_F(DriveSetTest, HastenReachesTheDriveThatHasTheWrite) {
  Open(2, 8);
  ASSERT_THAT(Write(0, 1), IsOk());  // the first drive takes it; the next goes to the second
  drives_[1]->delay_us = 50000;
  PageBuffer page(kPage);
  Outcome done;
  store_->Write(5, {1, 5, 1}, page.span(), done.Done());
  store_->Hasten(5);
  store_->Hasten(6);  // nothing is on its way
  EXPECT_THAT(done.Get(), IsOk());
  EXPECT_TRUE(gates_[0]->hastened().empty());
  EXPECT_EQ(gates_[1]->hastened().size(), 1u);
}

TEST_F(DriveSetTest, AHastenedWriteThatMovesOnStaysHastened) {
  Open(2, 8);
  for (testing::GatedEngine* gate : gates_) gate->Close();
  PageBuffer page(kPage);
  page.Fill(1005);
  Outcome done;
  store_->Write(5, {1, 5, 1}, page.span(), done.Done());  // the first drive takes it
  gates_[0]->WaitForHeld(1);
  store_->Hasten(5);
  drives_[0]->write_error = EIO;
  gates_[0]->Open();
  EXPECT_TRUE(gates_[1]->WaitForHastened(1));
  gates_[1]->Open();
  EXPECT_THAT(done.Get(), IsOk());
  EXPECT_THAT(Read(5, 1), IsOk());
  EXPECT_THAT(Write(5, 2), IsOk());
  EXPECT_EQ(gates_[0]->hastened().size() + gates_[1]->hastened().size(), 2u)
      << "nobody waits for another write of the slot";
}

/// A store whose writes are done well before their calls return.
class LateToReturn final : public PageStore {
 public:
  struct Seen {
    std::latch done{1};
    std::atomic<bool> destroyed = false;
    std::atomic<bool> destroyed_too_early = false;
  };

  explicit LateToReturn(Seen& seen) : seen_(seen) {}
  ~LateToReturn() override { seen_.destroyed = true; }
  void Write(SlotIndex, const PageIdentity&, std::span<const std::byte>, DoneFn done) override {
    Seen& seen = seen_;
    std::thread([&done] { std::move(done)(absl::OkStatus()); }).join();
    seen.done.count_down();
    for (int i = 0; i < 100 && !seen.destroyed; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    seen.destroyed_too_early = seen.destroyed.load();
  }
  void Read(SlotIndex, const PageIdentity&, std::span<std::byte>, DoneFn) override {}
  void Hasten(SlotIndex) override {}
  void Forget(SlotIndex) override {}
  void RegisterMemory(std::span<std::byte>) override {}
  void UnregisterMemory(std::span<std::byte>) override {}
  PageStoreStats stats() const override { return {}; }

 private:
  Seen& seen_;
};

TEST_F(DriveSetTest, IsThereUntilTheCallOfAWriteThatIsDoneHasReturned) {
  LateToReturn::Seen seen, not_written;
  std::vector<std::unique_ptr<PageStore>> stores;
  stores.push_back(std::make_unique<LateToReturn>(seen));
  stores.push_back(std::make_unique<LateToReturn>(not_written));
  store_ = AssembleDriveSet(
      {.store = {.page_bytes = kPage, .slots = 4}, .directories = {"/late", "/later"}},
      std::move(stores),
      workers_);
  PageBuffer page(kPage);
  std::thread writer([&] { store_->Write(0, {1, 0, 1}, page.span(), [](absl::Status) {}); });
  seen.done.wait();
  store_.reset();
  writer.join();
  EXPECT_FALSE(seen.destroyed_too_early);
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
  EXPECT_GT(store_->stats().drives[0].bytes_per_second, store_->stats().drives[1].bytes_per_second);
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
  EXPECT_LT(writes(0) - before, kWrites / 2u);
}

TEST_F(DriveSetTest, SlotsAndWritesAreInProportionToTheRates) {
  rates_ = {3e9, 1e9};
  Open(2, 1000);
  const std::vector<DriveStats> drives = store_->stats().drives;
  EXPECT_EQ(drives[0].places, 751u);
  EXPECT_EQ(drives[1].places, 251u);
  EXPECT_EQ(drives[0].bytes_per_second_at_start, 3e9);
  for (SlotIndex slot = 0; slot < 8; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  EXPECT_EQ(writes(0), 6u) << "before any drive has shown a rate of its own";
}

struct TwoDirectories {
  const testing::TempDirectory first, second;
  base::WorkerPool workers{{.threads = 1, .name = "test-worker", .cpus = {}}};
  DriveSetOptions options{.store = {.page_bytes = 4096, .slots = 5000},
                          .directories = {first.path(), second.path()}};
};

TEST(DriveSetCreateTest, MakesAFileInEveryDirectoryAndDividesByWhatEachGives) {
  TwoDirectories two;
  const auto set = CreateDriveSet(two.options, two.workers);
  ASSERT_THAT(set, IsOk());
  EXPECT_EQ(two.first.entries() + two.second.entries(), 0);
  const PageStoreStats stats = (*set)->stats();
  ASSERT_EQ(stats.drives.size(), 2u);
  EXPECT_EQ(stats.drives[1].directory, two.second.path());
  if (!stats.direct) GTEST_SKIP() << "rates are not measured: " << stats.direct_reason;
  for (const DriveStats& drive : stats.drives) {
    two.options.rates.push_back(drive.bytes_per_second_at_start);
    EXPECT_GT(drive.bytes_per_second_at_start, 1e5);
    EXPECT_LT(drive.bytes_per_second_at_start, 1e12);
  }
  const std::vector<PageStoreOptions> drives = OptionsOfDrives(two.options);
  EXPECT_EQ(stats.drives[0].places, drives[0].places);
  EXPECT_EQ(stats.drives[1].places, drives[1].places);
}

TEST(DriveSetCreateTest, RatesThatAreGivenAreNotMeasured) {
  TwoDirectories two;
  two.options.rates = {1e9, 4e9};
  const auto set = CreateDriveSet(two.options, two.workers);
  ASSERT_THAT(set, IsOk());
  EXPECT_EQ((*set)->stats().drives[0].places, 1001u);
  EXPECT_EQ((*set)->stats().drives[1].places, 4007u);
}

TEST(DriveSetCreateTest, StatsSayOfWhichDrivesFilesAreBuffered) {
  TwoDirectories two;
  two.options.store.direct = Use::kOff;
  two.options.rates = {1e9, 1e9};
  const auto set = CreateDriveSet(two.options, two.workers);
  ASSERT_THAT(set, IsOk());
  const PageStoreStats stats = (*set)->stats();
  EXPECT_FALSE(stats.direct);
  EXPECT_EQ(stats.direct_reason,
            "drive " + two.first.path() + ": off by option; drive " + two.second.path() +
                ": off by option");
}

TEST(DriveSetCreateTest, ErrorsNameTheDirectory) {
  TwoDirectories two;
  two.options.directories.push_back(two.first.path() + "/missing");
  EXPECT_THAT(CreateDriveSet(two.options, two.workers),
              IsStatus(Code::kNotFound, two.first.path() + "/missing does not exist"));
  two.options.directories.pop_back();
  two.options.store.keep_free_bytes = std::uint64_t{1} << 60;
  EXPECT_THAT(CreateDriveSet(two.options, two.workers),
              IsStatus(Code::kResourceExhausted, "drive " + two.first.path()));
}

TEST(DriveSetCreateTest, ADirectoryIsOneDrive) {
  TwoDirectories two;
  const std::string again = two.first.path() + "/.";
  two.options.directories = {two.first.path(), two.second.path(), again};
  EXPECT_THAT(
      CreateDriveSet(two.options, two.workers),
      IsStatus(Code::kInvalidArgument,
               again + " is named twice, the first time as " + two.first.path() + "; name one"));
}

}  // namespace
}  // namespace sluice::io
