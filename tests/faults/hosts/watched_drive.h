#pragma once

#include <memory>
#include <set>

#include "base/mutex.h"
#include "base/owner_process.h"
#include "io/store/page_store.h"
#include "tests/faults/trace/slot_ledger.h"

namespace sluice::faults {

/// One drive of a set: tells a ledger which page the set writes where, and sees that it writes
/// nothing to a place that lost a page, nor to a drive that has failed, and that what ends well
/// there goes on to another drive, which has room. Threads: as PageStore.
class WatchedDrive final : public io::PageStore {
 public:
  /// `ledger` outlives the drive.
  WatchedDrive(std::unique_ptr<io::PageStore> upstream, std::uint32_t drive, SlotLedger& ledger)
      : drive_(drive), ledger_(ledger), upstream_(std::move(upstream)) {}

  /// From now on the set writes nothing here. REQUIRES: no write is on its way from the set to the
  /// drive at this moment, as none is where there is one thread only.
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
  void CheckWrite(io::SlotIndex slot);
  bool fenced() const;
  void NoteLost(io::SlotIndex slot);

  const base::OwnerProcess owner_;
  const std::uint32_t drive_;
  SlotLedger& ledger_;
  mutable base::Mutex mutex_;
  bool fenced_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<io::SlotIndex> lost_ ABSL_GUARDED_BY(mutex_);
  /// Last: its threads use the rest until it is closed.
  const std::unique_ptr<io::PageStore> upstream_;
};

}  // namespace sluice::faults
