#include "tests/io/drives/drive_set_fixture.h"

#include <cerrno>
#include <chrono>
#include <latch>
#include <semaphore>
#include <thread>

#include "io/engine/blocking_engine.h"
#include "io/store/page_store_parts.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/page_buffer.h"

namespace sluice::testing {

using io::FencedDrive;
using io::PageStore;
using io::SlotIndex;

std::int64_t FakeDrive::Perform(const io::IoCommand& command) {
  std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  const int error = ErrorOf(command);
  return error != 0 ? -error : file.Perform(command);
}

int FakeDrive::ErrorOf(const io::IoCommand& command) {
  const bool writes = command.direction == io::IoDirection::kWrite;
  if (!writes && reads_to_fail > 0) {
    --reads_to_fail;
    return EIO;
  }
  base::MutexLock lock(mutex_);
  const std::uint64_t place = command.offset / kPage;
  if (!writes) return unreadable_.contains(place) ? EIO : read_error.load();
  const auto broken = unwritable_.find(place);
  return broken != unwritable_.end() ? broken->second : write_error.load();
}

void FakeDrive::Break(std::uint64_t place, int error) {
  BreakReads(place);
  base::MutexLock lock(mutex_);
  unwritable_[place] = error;
}

void FakeDrive::BreakReads(std::uint64_t place) {
  base::MutexLock lock(mutex_);
  unreadable_.insert(place);
}

void DriveSetFixture::Open(std::uint32_t drives, SlotIndex slots) {
  io::DriveSetOptions options{
      .store = {.page_bytes = kPage,
                .slots = slots,
                .backoff = {.attempts_max = 2, .first_pause = std::chrono::microseconds(1)}}};
  for (std::uint32_t i = 0; i < drives; ++i) {
    options.directories.push_back("/drive" + std::to_string(i));
  }
  options.rates = rates_;
  options.on_fenced = [this](FencedDrive fenced) {
    base::MutexLock lock(mutex_);
    fenced_.push_back(std::move(fenced));
  };
  drives_.clear();
  gates_.clear();
  stores_.clear();
  if (drives == 1) {
    store_ = MakeStore(options.store);
    return;
  }
  std::vector<std::unique_ptr<PageStore>> stores;
  for (const io::PageStoreOptions& drive : io::OptionsOfDrives(options)) {
    stores.push_back(MakeStore(drive));
  }
  store_ = io::AssembleDriveSet(options, std::move(stores), workers_);
}

std::unique_ptr<PageStore> DriveSetFixture::MakeStore(const io::PageStoreOptions& store) {
  auto drive = std::make_shared<FakeDrive>(io::PlacesOf(store));
  drives_.push_back(drive);
  auto engine = io::BlockingEngine::Create(
      {.name = "fake", .threads = 1, .cpus = {}},
      [drive](const io::IoCommand& command) { return drive->Perform(command); });
  auto gate = std::make_unique<GatedEngine>(*std::move(engine));
  gate->Open();
  gates_.push_back(gate.get());
  auto made = io::AssemblePageStore(store,
                                    {.engine = std::move(gate),
                                     .engine_reason = "in memory",
                                     .directory = store.directory,
                                     .files = nullptr,
                                     .timer = nullptr},
                                    workers_);
  stores_.push_back(made.get());
  return made;
}

absl::Status DriveSetFixture::Write(SlotIndex slot, std::uint64_t generation) {
  PageBuffer page(kPage);
  page.Fill(slot + 1000 * generation);
  Outcome done;
  store_->Write(slot, {1, slot, generation}, page.span(), done.Done());
  return done.Get();
}

absl::Status DriveSetFixture::Read(SlotIndex slot, std::uint64_t generation) {
  PageBuffer page(kPage);
  Outcome done;
  store_->Read(slot, {1, slot, generation}, page.span(), done.Done());
  absl::Status status = done.Get();
  if (status.ok()) {
    EXPECT_TRUE(page.Holds(slot + 1000 * generation)) << slot;
  }
  return status;
}

void DriveSetFixture::WriteMany(int count, std::uint64_t generation) {
  const auto slots = static_cast<SlotIndex>(count);
  std::latch done(count);
  std::vector<std::unique_ptr<PageBuffer>> pages;
  std::counting_semaphore<8> room(8);
  for (SlotIndex slot = 0; slot < slots; ++slot) {
    room.acquire();
    pages.push_back(std::make_unique<PageBuffer>(kPage));
    pages.back()->Fill(slot + 1000 * generation);
    store_->Write(slot, {1, slot, generation}, pages.back()->span(), [&](absl::Status status) {
      EXPECT_THAT(status, IsOk());
      room.release();
      done.count_down();
    });
  }
  done.wait();
}

void DriveSetFixture::HoldWritesOfAFailingDrive(std::vector<Outcome>* outcomes) {
  gates_[0]->Close();
  for (std::uint64_t place = 0; place < 3; ++place) drives_[0]->Break(place);
  outcomes->resize(8);
  for (SlotIndex slot = 0; slot < 8; ++slot) {
    pages_.push_back(std::make_unique<PageBuffer>(kPage));
    pages_.back()->Fill(slot + 1000);
    store_->Write(slot, {1, slot, 1}, pages_.back()->span(), (*outcomes)[slot].Done());
  }
  gates_[0]->WaitForHeld(4);
  for (const SlotIndex slot : {1, 3, 5, 7}) EXPECT_THAT((*outcomes)[slot].Get(), IsOk());
  FinishHashing();
}

/// Waits until every worker has ended its earlier jobs.
void DriveSetFixture::FinishHashing() {
  // Shared: a worker may still be inside when all have arrived.
  const auto all = std::make_shared<std::latch>(3);
  for (int i = 0; i < 2; ++i) workers_.Submit([all] { all->arrive_and_wait(); });
  all->arrive_and_wait();
}

std::vector<FencedDrive> DriveSetFixture::fenced() const {
  base::MutexLock lock(mutex_);
  return fenced_;
}

}  // namespace sluice::testing
