#include "io/drives/drive_ledger.h"

#include <string>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/store/medium_fault.h"

namespace sluice::io {
DriveLedger::DriveLedger(const DriveSetOptions& options)
    : options_(options), places_(options.store.slots, SlotsOfDrives(options)) {
  for (const SlotIndex slots : SlotsOfDrives(options)) {
    const double rate = options.rates.empty() ? 0 : options.rates[drives_.size()];
    drives_.push_back({.meter = DriveMeter(rate),
                       .outcomes = DriveOutcomes(options.errors_to_fence),
                       .rate_at_start = rate,
                       .slots = slots});
  }
}

absl::Status DriveLedger::CheckSlot(SlotIndex slot) const {
  if (slot < options_.store.slots) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("slot {}: the store has {} slots", slot, options_.store.slots)));
}

absl::StatusOr<WriteAttempt> DriveLedger::BeginWrite(SlotIndex slot, Clock::time_point now) {
  SLUICE_RETURN_IF_ERROR(CheckSlot(slot));
  if (places_.InUse(slot)) {
    return absl::FailedPreconditionError(base::ToAbsl(
        fmt::format("slot {}: written while a read or write of it is in flight", slot)));
  }
  places_.Forget(slot);
  WriteAttempt attempt{.slot = slot, .place = {}, .refused = {}};
  if (Take(&attempt, now)) return attempt;
  return NoRoom(slot);
}

absl::Status DriveLedger::NoRoom(SlotIndex slot) const {
  std::uint64_t retired = 0;
  bool fenced = false;
  for (const Drive& drive : drives_) {
    retired += drive.retired;
    fenced = fenced || drive.outcomes.fenced();
  }
  std::string text = fmt::format("slot {}: no drive has room", slot);
  if (retired > 0) text += fmt::format(", {} slots lost a page and are used no more", retired);
  if (fenced) text += ", drives that failed take no pages";
  return absl::ResourceExhaustedError(base::ToAbsl(text));
}

bool DriveLedger::Take(WriteAttempt* attempt, Clock::time_point now) {
  const std::optional<std::uint32_t> chosen = ChooseDrive(attempt->refused);
  if (!chosen.has_value()) return false;
  TakeTurn(*chosen, now);
  drives_[*chosen].meter.Begin(now);
  attempt->place = places_.Take(attempt->slot, *chosen);
  return true;
}

/// The drive whose turn it is among those that may take a page; none when there is none.
std::optional<std::uint32_t> DriveLedger::ChooseDrive(const std::vector<bool>& refused) const {
  std::optional<std::uint32_t> chosen;
  for (std::uint32_t i = 0; i < drives_.size(); ++i) {
    const bool refuses = !refused.empty() && refused[i];
    if (refuses || drives_[i].outcomes.fenced() || !places_.HasRoom(i)) continue;
    if (!chosen || drives_[i].meter.turn() < drives_[*chosen].meter.turn()) chosen = i;
  }
  return chosen;
}

void DriveLedger::TakeTurn(std::uint32_t chosen, Clock::time_point now) {
  DriveMeter& meter = drives_[chosen].meter;
  const double first = meter.turn();
  const std::uint64_t bytes = options_.store.page_bytes;
  meter.TakeTurn(first, static_cast<double>(bytes) / meter.RateAt(now, bytes));
  for (Drive& each : drives_) each.meter.TakeTurn(first, 0);
}

void DriveLedger::EndOnMeter(std::uint32_t drive,
                             const absl::Status& status,
                             Clock::time_point now) {
  drives_[drive].meter.End(status.ok() ? options_.store.page_bytes : 0, now);
}

DriveLedger::WriteEnd DriveLedger::EndWrite(WriteAttempt* attempt,
                                            const absl::Status& status,
                                            Clock::time_point now) {
  WriteEnd end;
  const SlotIndex slot = attempt->slot;
  const std::uint32_t drive = attempt->place.drive;
  EndOnMeter(drive, status, now);
  const bool fences = drives_[drive].outcomes.NoteWrite(status, MayFence(drive));
  end.again = Leaves(*attempt, status) && HasOtherDrive(attempt);
  const bool hastened = places_.FindHastened(slot).has_value();
  if (status.ok() && !end.again) {
    places_.Acknowledge(slot);
  } else {
    if (OthersMayTake(status)) places_.Doubt(slot);
    places_.Forget(slot);
  }
  places_.RemoveUser(slot);
  if (end.again) Take(attempt, now);
  if (end.again && hastened) places_.Hasten(slot);
  if (fences) end.fenced = Fenced(drive, status);
  return end;
}

/// Whether the page of an attempt that has ended is wanted still, and better on another drive.
bool DriveLedger::Leaves(const WriteAttempt& attempt, const absl::Status& status) const {
  if (!places_.FindOnItsWay(attempt.slot).has_value()) return false;
  if (status.ok()) return drives_[attempt.place.drive].outcomes.fenced();
  return OthersMayTake(status);
}

/// Whether there is one that has not refused the page; the attempt's own has now.
bool DriveLedger::HasOtherDrive(WriteAttempt* attempt) const {
  attempt->refused.resize(drives_.size());
  attempt->refused[attempt->place.drive] = true;
  return ChooseDrive(attempt->refused).has_value();
}

absl::StatusOr<Place> DriveLedger::BeginRead(SlotIndex slot, Clock::time_point now) {
  SLUICE_RETURN_IF_ERROR(CheckSlot(slot));
  const std::optional<Place> place = places_.FindAcknowledged(slot);
  if (!place.has_value()) {
    return absl::NotFoundError(
        base::ToAbsl(fmt::format("slot {}: holds no acknowledged page", slot)));
  }
  places_.AddUser(slot);
  drives_[place->drive].meter.Begin(now);
  return *place;
}

std::optional<FencedDrive> DriveLedger::EndRead(SlotIndex slot,
                                                const Place& place,
                                                const absl::Status& status,
                                                Clock::time_point now) {
  Drive& drive = drives_[place.drive];
  EndOnMeter(place.drive, status, now);
  std::optional<FencedDrive> fenced;
  if (drive.outcomes.NoteRead(status, slot, MayFence(place.drive)))
    fenced = Fenced(place.drive, status);
  if (IsMediumFault(status) && places_.Retire(slot)) ++drive.retired;
  places_.RemoveUser(slot);
  return fenced;
}

/// The last drive is not given up: there is no other that could take its pages.
bool DriveLedger::MayFence(std::uint32_t drive) const {
  for (std::uint32_t i = 0; i < drives_.size(); ++i) {
    if (i != drive && !drives_[i].outcomes.fenced()) return true;
  }
  return false;
}

FencedDrive DriveLedger::Fenced(std::uint32_t drive, const absl::Status& last) const {
  FencedDrive fenced{.directory = options_.directories[drive],
                     .slots = places_.HeldBy(drive),
                     .cause = drives_[drive].outcomes.CauseOf(last)};
  Unmark(&fenced.cause);
  return fenced;
}

DriveStats DriveLedger::StatsOf(std::uint32_t drive) const {
  return {.directory = options_.directories[drive],
          .slots = drives_[drive].slots,
          .retired = drives_[drive].retired,
          .bytes_per_second = drives_[drive].meter.rate(),
          .bytes_per_second_at_start = drives_[drive].rate_at_start,
          .fenced = drives_[drive].outcomes.fenced()};
}

}  // namespace sluice::io
