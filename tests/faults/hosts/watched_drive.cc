#include "tests/faults/hosts/watched_drive.h"

#include <utility>

#include "base/check.h"
#include "fmt/format.h"
#include "io/store/medium_fault.h"

namespace sluice::faults {

void WritesToCome::Add(const std::byte* data, io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  slots_[data] = slot;
}

std::optional<io::SlotIndex> WritesToCome::Take(const std::byte* data) {
  base::MutexLock lock(mutex_);
  const auto found = slots_.find(data);
  if (found == slots_.end()) return std::nullopt;
  const io::SlotIndex slot = found->second;
  slots_.erase(found);
  return slot;
}

void WatchedEngine::SubmitChecked(io::IoRequest* request) {
  const io::IoCommand& command = request->command;
  if (command.direction == io::IoDirection::kWrite) {
    const std::optional<io::SlotIndex> slot = parts_.writes->Take(command.data);
    const Place place{.drive = parts_.drive, .page = command.offset / parts_.page_bytes};
    if (slot.has_value()) parts_.ledger->Put(*slot, place);
  }
  SLUICE_CHECK(upstream_->Submit(request).ok(), "upstream has the same rules");
}

void WatchedDrive::NoteFenced() {
  base::MutexLock lock(mutex_);
  fenced_ = true;
}

/// A child of fork may find locks that are held for ever: the store refuses it.
void WatchedDrive::Write(io::SlotIndex slot,
                         const io::PageIdentity& identity,
                         std::span<const std::byte> data,
                         io::DoneFn done) {
  if (owner_.IsThis()) NoteWrite(slot, data);
  upstream_->Write(
      slot, identity, data, [this, slot, done = std::move(done)](absl::Status status) mutable {
        const bool on_fenced = status.ok() && fenced();
        SlotLedger& ledger = *parts_.ledger;
        const std::uint32_t drive = parts_.drive;
        std::move(done)(std::move(status));
        // This object may be gone now.
        if (on_fenced && ledger.Holds(slot, drive)) {
          ledger.NoteBroken("a page stays on a drive that has failed");
        }
      });
}

bool WatchedDrive::fenced() const {
  base::MutexLock lock(mutex_);
  return fenced_;
}

void WatchedDrive::NoteWrite(io::SlotIndex slot, std::span<const std::byte> data) {
  if (fenced()) {
    parts_.ledger->NoteBroken(fmt::format("drive {} has failed and is written", parts_.drive));
  }
  parts_.writes->Add(data.data(), slot);
}

void WatchedDrive::Read(io::SlotIndex slot,
                        const io::PageIdentity& identity,
                        std::span<std::byte> data,
                        io::DoneFn done) {
  upstream_->Read(
      slot, identity, data, [this, slot, done = std::move(done)](absl::Status status) mutable {
        if (io::IsMediumFault(status)) parts_.ledger->NoteLost(slot);
        std::move(done)(std::move(status));
      });
}

}  // namespace sluice::faults
