#include "tests/faults/hosts/watched_drive.h"

#include <utility>

#include "fmt/format.h"
#include "io/store/medium_fault.h"

namespace sluice::faults {

void WatchedDrive::NoteFenced() {
  base::MutexLock lock(mutex_);
  fenced_ = true;
}

/// A child of fork may find locks that are held for ever: the store above it refuses it.
void WatchedDrive::Write(io::SlotIndex slot,
                         const io::PageIdentity& identity,
                         std::span<const std::byte> data,
                         io::DoneFn done) {
  if (owner_.IsThis()) {
    CheckWrite(slot);
    ledger_.Put({.drive = drive_, .slot = slot}, identity);
  }
  upstream_->Write(
      slot, identity, data, [this, slot, done = std::move(done)](absl::Status status) mutable {
        const bool on_fenced = status.ok() && fenced();
        SlotLedger& ledger = ledger_;
        const io::Place place{.drive = drive_, .slot = slot};
        std::move(done)(std::move(status));
        // The drive may be gone now.
        if (on_fenced && ledger.Holds(place))
          ledger.NoteBroken("a page stays on a drive that has failed");
      });
}

bool WatchedDrive::fenced() const {
  base::MutexLock lock(mutex_);
  return fenced_;
}

void WatchedDrive::CheckWrite(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  if (lost_.contains(slot)) {
    ledger_.NoteBroken(fmt::format("slot {} of drive {} lost a page and is written", slot, drive_));
  }
  if (fenced_) ledger_.NoteBroken(fmt::format("drive {} has failed and is written", drive_));
}

void WatchedDrive::Read(io::SlotIndex slot,
                        const io::PageIdentity& identity,
                        std::span<std::byte> data,
                        io::DoneFn done) {
  upstream_->Read(
      slot, identity, data, [this, slot, done = std::move(done)](absl::Status status) mutable {
        if (io::IsMediumFault(status)) NoteLost(slot);
        std::move(done)(std::move(status));
      });
}

void WatchedDrive::NoteLost(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  lost_.insert(slot);
}

}  // namespace sluice::faults
