#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/timer.h"
#include "base/worker_pool.h"
#include "io/drives/drive_set.h"
#include "io/store/page_store_parts.h"
#include "tests/faults/hosts/watched_drive.h"
#include "tests/faults/trace/slot_ledger.h"
#include "tests/faults/virtual/executor.h"
#include "tests/faults/virtual/virtual_engine.h"
#include "tests/support/store/faulty_engine.h"

namespace sluice::faults {

/// Kind of the engine below the store.
enum class Medium { kVirtual, kUring, kThreads };
std::string ToString(Medium medium);

/// Options of a host. Only the first drive has faults.
struct StoreHostOptions {
  Medium medium = Medium::kVirtual;
  std::uint64_t page_bytes = 4096;
  io::SlotIndex slots = 0;
  std::uint32_t drives = 1;
  testing::FaultPlan plan;
  testing::FaultHooks hooks;  ///< hooks of the test; the host sets `on_held` and `timer`
  /// Function that is told of a failed drive, on the thread of the executor.
  std::function<void(io::FencedDrive)> on_fenced;
  /// Virtual disks. The rings of real disks have as many entries.
  VirtualEngineOptions disk;
};

/// The page store of the runtime, of one drive or a set, over a faulty engine. The host also makes
/// the store's time pass. Threads: that of the test.
class StoreHost {
 public:
  virtual ~StoreHost() = default;

  /// Reason why this machine cannot run the medium; empty if it can.
  const std::string& unavailable() const { return unavailable_; }
  io::PageStore& store() { return *store_; }
  virtual Executor& executor() = 0;
  /// Engine of the first drive, valid until Close.
  testing::FaultyEngine& engine() { return *engine_; }
  /// Whether the fault has struck; valid until Close.
  virtual bool struck() const { return engine_->struck(); }
  /// Ends all faults. REQUIRES: not closed.
  virtual void Heal() { engine_->Heal(); }
  /// Destroys the store, which waits for I/O in flight.
  virtual void Close() { store_.reset(); }
  /// Virtual time that has passed; 0 with a real medium.
  virtual std::chrono::microseconds now() const { return {}; }
  /// Whether the medium can register memory.
  virtual bool registers_memory() const { return true; }
  /// Registered bytes of the drive that has fewest; `otherwise` if the medium cannot tell.
  virtual std::uint64_t known_bytes(std::uint64_t otherwise) const { return otherwise; }

 protected:
  /// `ledger` outlives the host.
  StoreHost(const StoreHostOptions& options, SlotLedger& ledger)
      : options_(options), ledger_(ledger) {}

  const StoreHostOptions& options() const { return options_; }
  /// Options of each drive.
  io::PageStoreOptions StoreOptions() const;
  /// Makes the store, or sets unavailable(). `late`: delivers late completions.
  void Open(io::DriveSetOptions set, base::Timer* late, base::WorkerPool& workers);

 private:
  virtual absl::StatusOr<io::PageStoreParts> MakeParts(const io::PageStoreOptions& drive) = 0;

  absl::Status OpenDrives(const io::DriveSetOptions& set,
                          base::Timer* late,
                          base::WorkerPool& workers);
  absl::StatusOr<std::unique_ptr<io::PageStore>> OpenDrive(const io::PageStoreOptions& options,
                                                           base::Timer* late,
                                                           base::WorkerPool& workers);
  std::unique_ptr<io::IoEngine> MakeFaulty(std::unique_ptr<io::IoEngine> upstream,
                                           base::Timer* late);
  void OnFenced(io::FencedDrive fenced);

  const StoreHostOptions options_;
  SlotLedger& ledger_;
  std::string unavailable_;
  testing::FaultyEngine* engine_ = nullptr;
  std::vector<std::string> directories_;
  std::vector<WatchedDrive*> watched_;
  std::unique_ptr<io::PageStore> store_;
};

std::unique_ptr<StoreHost> MakeStoreHost(const StoreHostOptions& options, SlotLedger& ledger);

// Hosts that MakeStoreHost chooses from.
std::unique_ptr<StoreHost> MakeVirtualHost(const StoreHostOptions& options, SlotLedger& ledger);
std::unique_ptr<StoreHost> MakeRealHost(const StoreHostOptions& options, SlotLedger& ledger);

}  // namespace sluice::faults
