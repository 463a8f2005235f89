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

/// On what the store runs.
enum class Medium { kVirtual, kUring, kThreads };
std::string ToString(Medium medium);

/// Nothing goes wrong but on the first drive.
struct StoreHostOptions {
  Medium medium = Medium::kVirtual;
  std::uint64_t page_bytes = 4096;
  io::SlotIndex slots = 0;
  std::uint32_t drives = 1;
  testing::FaultPlan plan;
  testing::FaultHooks hooks;  ///< `on_held` and `timer` are the host's
  /// A drive has failed; on the thread of the executor.
  std::function<void(io::FencedDrive)> on_fenced;
  /// The virtual disks; the rings of real ones have the same number of entries.
  VirtualEngineOptions disk;
};

/// The page store that the runtime has, of one drive or a set, over a faulty engine, and what makes
/// its time pass. Threads: that of the test.
class StoreHost {
 public:
  virtual ~StoreHost() = default;

  /// Why this machine cannot run it; empty when it can.
  const std::string& unavailable() const { return unavailable_; }
  io::PageStore& store() { return *store_; }
  virtual Executor& executor() = 0;
  /// Until Close.
  testing::FaultyEngine& engine() { return *engine_; }
  /// Whether the fault has come, until Close.
  virtual bool struck() const { return engine_->struck(); }
  /// From now on nothing goes wrong, until Close.
  virtual void Heal() { engine_->Heal(); }
  /// Destroys the store, which waits for what is in flight.
  virtual void Close() { store_.reset(); }
  /// Time that has passed, where it is virtual.
  virtual std::chrono::microseconds now() const { return {}; }
  /// Whether the medium can know memory by number.
  virtual bool registers_memory() const { return true; }
  /// How much of it each drive knows really, `otherwise` where that cannot be asked.
  virtual std::uint64_t known_bytes(std::uint64_t otherwise) const { return otherwise; }

 protected:
  /// `ledger` outlives the host.
  StoreHost(const StoreHostOptions& options, SlotLedger& ledger)
      : options_(options), ledger_(ledger) {}

  const StoreHostOptions& options() const { return options_; }
  /// Of each drive.
  io::PageStoreOptions StoreOptions() const;
  /// Makes the store, or says why that cannot be had. `late`: what is late comes by it.
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

// What MakeStoreHost chooses from.
std::unique_ptr<StoreHost> MakeVirtualHost(const StoreHostOptions& options, SlotLedger& ledger);
std::unique_ptr<StoreHost> MakeRealHost(const StoreHostOptions& options, SlotLedger& ledger);

}  // namespace sluice::faults
