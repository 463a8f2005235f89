#pragma once

#include <atomic>
#include <cerrno>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "base/worker_pool.h"
#include "gtest/gtest.h"
#include "io/drives/drive_set.h"
#include "tests/support/store/gated_engine.h"
#include "tests/support/store/memory_engine.h"
#include "tests/support/store/page_buffer.h"

namespace sluice::testing {

/// A drive in memory whose errors and pace are set while it runs.
class FakeDrive {
 public:
  static constexpr std::uint64_t kPage = 4096;

  explicit FakeDrive(io::SlotIndex places) : file(places * kPage) {}

  std::int64_t Perform(const io::IoCommand& command);
  /// The place takes no page and gives none back: EIO, or of writes another error.
  void Break(std::uint64_t place, int error = EIO);
  /// The place gives no page back.
  void BreakReads(std::uint64_t place);

  MemoryFile file;
  std::atomic<int> delay_us{0};
  std::atomic<int> write_error{0};
  std::atomic<int> read_error{0};
  std::atomic<int> reads_to_fail{0};  ///< the next ones, with EIO

 private:
  int ErrorOf(const io::IoCommand& command);

  base::Mutex mutex_;
  /// Offsets that cannot be written, and their errors.
  std::map<std::uint64_t, int> unwritable_ ABSL_GUARDED_BY(mutex_);
  std::set<std::uint64_t> unreadable_ ABSL_GUARDED_BY(mutex_);
};

/// Result of an operation. Its callback shares it, and may still run when the result is out.
class Outcome {
 public:
  io::DoneFn Done() {
    return [promise = promise_](absl::Status status) { promise->set_value(std::move(status)); };
  }
  absl::Status Get() { return promise_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<absl::Status>> promise_ =
      std::make_shared<std::promise<absl::Status>>();
};

/// Rates of two drives: so slow that none is late while a test holds its writes.
inline const std::vector<double> kSlowDrives = {1000, 1000};

/// A set over fake drives, or the store of one drive, as a Runtime has it. Pages follow from their
/// slot and generation.
class DriveSetFixture : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPage = FakeDrive::kPage;

  void Open(std::uint32_t drives, io::SlotIndex slots);

  absl::Status Write(io::SlotIndex slot, std::uint64_t generation);
  /// The test fails when the read gives other bytes.
  absl::Status Read(io::SlotIndex slot, std::uint64_t generation);
  /// Keeps eight writes in flight until `count` are done.
  void WriteMany(int count, std::uint64_t generation);

  /// Writes slots 0 to 7 of two drives. Slots 0, 2, 4 and 6 are on the first drive, whose gate
  /// holds their writes back; their checksums are made. Once the gate opens, three of these writes
  /// fail, which fences the drive. The write of slot 6 succeeds.
  void HoldWritesOfAFailingDrive(std::vector<Outcome>* outcomes);
  std::vector<io::FencedDrive> fenced() const;
  io::PageStore& drive(std::size_t number) { return *stores_[number]; }
  std::uint64_t writes(std::size_t drive) const { return store_->stats().drives[drive].writes; }

  std::vector<double> rates_;  ///< rates for Open; empty: even
  base::WorkerPool workers_{{.threads = 2, .name = "test-worker", .cpus = {}}};
  std::vector<std::shared_ptr<FakeDrive>> drives_;
  std::vector<GatedEngine*> gates_;
  mutable base::Mutex mutex_;
  std::vector<io::FencedDrive> fenced_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<PageBuffer>> pages_;  ///< pages of writes that are held back
  std::unique_ptr<io::PageStore> store_;

 private:
  std::vector<io::PageStore*> stores_;  ///< store of each drive
  void FinishHashing();
  std::unique_ptr<io::PageStore> MakeStore(const io::PageStoreOptions& store);
};

}  // namespace sluice::testing
