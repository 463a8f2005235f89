#pragma once

#include <memory>
#include <string>

#include "io/page_store.h"
#include "tests/faults/executor.h"
#include "tests/faults/virtual_engine.h"
#include "tests/support/faulty_engine.h"

namespace sluice::faults {

/// On what the store runs.
enum class Medium { kVirtual, kUring, kThreads };
std::string ToString(Medium medium);

struct StoreHostOptions {
  std::uint64_t page_bytes = 4096;
  io::SlotIndex slots = 0;
  testing::FaultPlan plan;
  testing::FaultHooks hooks;  ///< `on_held` and `timer` are the host's
  /// The virtual disk; the ring of a real one has the same number of entries.
  VirtualEngineOptions disk;
};

/// A page store over a faulty engine, and what makes its time pass. Threads: that of the test.
class StoreHost {
 public:
  virtual ~StoreHost() = default;

  /// Why this machine cannot run it; empty when it can.
  virtual std::string unavailable() const { return {}; }
  virtual io::PageStore& store() = 0;
  virtual Executor& executor() = 0;
  /// Until Close.
  testing::FaultyEngine& engine() { return *engine_; }
  /// Whether the fault has come, until Close.
  virtual bool struck() const { return engine_->struck(); }
  /// From now on nothing goes wrong, until Close.
  virtual void Heal() { engine_->Heal(); }
  /// Destroys the store, which waits for what is in flight.
  virtual void Close() = 0;
  /// Time that has passed, where it is virtual.
  virtual std::chrono::microseconds now() const { return {}; }

 protected:
  std::unique_ptr<testing::FaultyEngine> MakeFaulty(const StoreHostOptions& options,
                                                    std::unique_ptr<io::IoEngine> upstream,
                                                    base::Timer* timer);

 private:
  testing::FaultyEngine* engine_ = nullptr;
};

std::unique_ptr<StoreHost> MakeStoreHost(Medium medium, const StoreHostOptions& options);

}  // namespace sluice::faults
