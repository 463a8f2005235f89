#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/worker_pool.h"
#include "io/store/page_store_parts.h"
#include "tests/support/store/memory_engine.h"
#include "tests/support/temp_directory.h"

namespace sluice::testing {

/// The ways to run a page store that one contract holds for.
enum class StoreKind { kUring, kThreads, kBuffered, kMemory };
std::string ToString(StoreKind kind);

struct StoreSpec {
  StoreKind kind = StoreKind::kMemory;
  io::PageStoreOptions options;
  /// Wraps the engine of the store; empty: no wrapper.
  std::function<std::unique_ptr<io::IoEngine>(std::unique_ptr<io::IoEngine>)> wrap;
};

/// A store of any kind in a temporary directory, with a hand on the bytes below it.
class StoreUnderTest {
 public:
  explicit StoreUnderTest(const StoreSpec& spec);
  ~StoreUnderTest();

  /// Reason why this machine cannot run the kind; empty if it can.
  const std::string& unavailable() const { return unavailable_; }

  io::PageStore& operator*() { return *store_; }
  io::PageStore* operator->() { return store_.get(); }
  /// Number of the store's workers, which hash.
  static constexpr int kWorkers = 2;
  base::WorkerPool& workers() { return workers_; }
  /// Destroys the store.
  void Close() { store_.reset(); }

  absl::Status Write(io::SlotIndex slot,
                     const io::PageIdentity& identity,
                     std::span<const std::byte> data);
  absl::Status Read(io::SlotIndex slot,
                    const io::PageIdentity& identity,
                    std::span<std::byte> data);

  /// Removes the directory, which succeeds if it has no entries. Returns "" or why not.
  std::string RemoveDirectory();

  // Access below the store, at rest only.
  /// Descriptor of the store's file; -1 if there is none.
  int fd() const { return fd_; }
  // Damage to slots that hold pages.
  void FlipByte(io::SlotIndex slot, std::size_t at);
  void SwapSlots(io::SlotIndex a, io::SlotIndex b);
  void Truncate(std::size_t bytes);

 private:
  void Open(StoreSpec spec);
  std::uint64_t OffsetOf(io::SlotIndex slot) const;
  void MoveSlot(io::SlotIndex slot, io::IoDirection direction, std::byte* data);

  TempDirectory directory_;
  base::WorkerPool workers_{{.threads = kWorkers, .name = "test-worker", .cpus = {}}};
  std::uint64_t page_bytes_;
  std::shared_ptr<MemoryFile> memory_;
  int fd_ = -1;
  std::string unavailable_;
  std::unique_ptr<io::PageStore> store_;
};

}  // namespace sluice::testing
