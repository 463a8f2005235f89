#pragma once

#include <map>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "base/owner_process.h"
#include "io/engine/io_engine.h"
#include "io/store/page_store.h"
#include "tests/faults/trace/slot_ledger.h"

namespace sluice::faults {

/// Writes that were asked of a drive and have not reached its engine. Threads: any.
class WritesToCome {
 public:
  void Add(const std::byte* data, io::SlotIndex slot);
  /// Slot of the write with the page at `data`. Each write is taken once.
  std::optional<io::SlotIndex> Take(const std::byte* data);

 private:
  base::Mutex mutex_;
  std::map<const std::byte*, io::SlotIndex> slots_ ABSL_GUARDED_BY(mutex_);
};

/// The engine of a watched drive: tells the ledger which slot's page goes to which place. The
/// store's first attempt of a write comes from the beginning of the page. Threads: as every engine.
class WatchedEngine final : public io::IoEngine {
 public:
  struct Parts {
    std::uint32_t drive = 0;
    std::uint64_t page_bytes = 0;
    SlotLedger* ledger = nullptr;
    std::shared_ptr<WritesToCome> writes;
  };
  WatchedEngine(std::unique_ptr<io::IoEngine> upstream, Parts parts)
      : parts_(std::move(parts)), upstream_(std::move(upstream)) {}

  std::string_view name() const override { return upstream_->name(); }
  std::string features() const override { return upstream_->features(); }
  std::uint64_t merged() const override { return upstream_->merged(); }
  io::RegisteredMemory RegisterMemory(std::span<std::byte> memory) override {
    return upstream_->RegisterMemory(memory);
  }
  void UnregisterMemory(std::span<std::byte> memory) override {
    upstream_->UnregisterMemory(memory);
  }
  void Hasten(const io::IoFile& file, std::uint64_t offset, std::uint64_t bytes) override {
    upstream_->Hasten(file, offset, bytes);
  }

 protected:
  void SubmitChecked(io::IoRequest* request) override;

 private:
  const Parts parts_;
  const std::unique_ptr<io::IoEngine> upstream_;
};

/// One drive of a set. It checks that nothing is written to it once it has failed. A write that
/// ends well there afterwards must go on to another drive with room. Its engine is a WatchedEngine,
/// and the ledger checks that nothing is written to a place that lost a page. Threads: as
/// PageStore.
class WatchedDrive final : public io::PageStore {
 public:
  struct Parts {
    std::uint32_t drive = 0;
    SlotLedger* ledger = nullptr;  ///< outlives the drive
    std::shared_ptr<WritesToCome> writes;
  };
  /// `upstream`: a store that marks errors.
  WatchedDrive(std::unique_ptr<io::PageStore> upstream, Parts parts)
      : parts_(std::move(parts)), upstream_(std::move(upstream)) {}

  /// Notes that the set writes nothing to this drive from now on. REQUIRES: no write is on its way
  /// from the set to the drive, which holds if there is one thread only.
  void NoteFenced();

  void Write(io::SlotIndex slot,
             const io::PageIdentity& identity,
             std::span<const std::byte> data,
             io::DoneFn done) override;
  void Read(io::SlotIndex slot,
            const io::PageIdentity& identity,
            std::span<std::byte> data,
            io::DoneFn done) override;
  void Hasten(io::SlotIndex slot) override { upstream_->Hasten(slot); }
  void Forget(io::SlotIndex slot) override { upstream_->Forget(slot); }
  void RegisterMemory(std::span<std::byte> memory) override { upstream_->RegisterMemory(memory); }
  void UnregisterMemory(std::span<std::byte> memory) override {
    upstream_->UnregisterMemory(memory);
  }
  absl::StatusOr<FilePart> FindPart(io::SlotIndex slot) const override {
    return upstream_->FindPart(slot);
  }
  absl::Status CheckMappable() const override { return upstream_->CheckMappable(); }
  io::PageStoreStats stats() const override { return upstream_->stats(); }

 private:
  void NoteWrite(io::SlotIndex slot, std::span<const std::byte> data);
  bool fenced() const;

  const base::OwnerProcess owner_;
  const Parts parts_;
  mutable base::Mutex mutex_;
  bool fenced_ ABSL_GUARDED_BY(mutex_) = false;
  /// Declared last: its threads use the other members until it is closed.
  const std::unique_ptr<io::PageStore> upstream_;
};

}  // namespace sluice::faults
