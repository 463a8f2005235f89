#include "io/drives/drive_places.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/store/medium_fault.h"

namespace sluice::io {
namespace {

/// Whether the error of a write speaks against the drive, not against the call, the moment or the
/// space.
bool WriteSpeaksAgainstDrive(const absl::Status& status) { return absl::IsInternal(status); }

/// Whether the drive was asked for a page and has lost it, or is gone. Every error but the first
/// leaves the page where it is.
bool ReadSpeaksAgainstDrive(const absl::Status& status) {
  return (absl::IsDataLoss(status) && !IsWithoutIo(status)) || IsDriveFault(status);
}

/// Whether another drive may take a page that one refused with this status.
bool OthersMayTake(const absl::Status& status) {
  return WriteSpeaksAgainstDrive(status) || absl::IsUnavailable(status) ||
         absl::IsResourceExhausted(status);
}

}  // namespace

DrivePlaces::DrivePlaces(DrivePlacesOptions options, DriveShares shares)
    : options_(std::move(options)), shares_(std::move(shares)), entries_(options_.slots) {
  for (const SlotIndex places : options_.places) drives_.push_back({.free_places = places});
}

// --- writes -----------------------------------------------------------------------------------

absl::Status DrivePlaces::CheckSlot(SlotIndex slot) const {
  if (slot < options_.slots) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("slot {}: the store has {} slots", slot, options_.slots)));
}

absl::Status DrivePlaces::CheckWrite(SlotIndex slot) const {
  SLUICE_RETURN_IF_ERROR(CheckSlot(slot));
  if (entries_[slot].users == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      base::ToAbsl(fmt::format("slot {}: written while a read or write of it is in flight", slot)));
}

absl::StatusOr<WriteAttempt> DrivePlaces::BeginWrite(SlotIndex slot, Clock::time_point now) {
  WriteAttempt attempt{.slot = slot, .refused = {}};
  if (Take(&attempt, now)) return attempt;
  return NoRoom(slot);
}

absl::Status DrivePlaces::NoRoom(SlotIndex slot) const {
  std::uint64_t retired = 0;
  bool fenced = false;
  for (const Drive& drive : drives_) {
    retired += drive.retired;
    fenced = fenced || drive.fenced;
  }
  std::string text = fmt::format("slot {}: no drive has room", slot);
  if (retired > 0) text += fmt::format(", {} places lost a page and are used no more", retired);
  if (fenced) text += ", drives that failed take no pages";
  return absl::ResourceExhaustedError(base::ToAbsl(text));
}

bool DrivePlaces::Take(WriteAttempt* attempt, Clock::time_point now) {
  const std::optional<std::uint32_t> chosen = ChooseDrive(attempt->refused);
  if (!chosen.has_value()) return false;
  Entry& entry = entries_[attempt->slot];
  SLUICE_CHECK(!entry.taken, "the page of a slot is on one drive at a time");
  shares_.TakeTurn(*chosen, now);
  shares_.Begin(*chosen, now);
  --drives_[*chosen].free_places;
  entry = Entry{.drive = *chosen, .users = 1, .taken = true};
  attempt->drive = *chosen;
  return true;
}

/// Next drive in turn among those that may take a page; none if no drive may.
std::optional<std::uint32_t> DrivePlaces::ChooseDrive(const std::vector<bool>& refused) const {
  std::optional<std::uint32_t> chosen;
  for (std::uint32_t i = 0; i < drives_.size(); ++i) {
    const bool refuses = !refused.empty() && refused[i];
    if (refuses || drives_[i].fenced || drives_[i].free_places == 0) continue;
    if (!chosen || shares_.turn(i) < shares_.turn(*chosen)) chosen = i;
  }
  return chosen;
}

DrivePlaces::WriteEnd DrivePlaces::EndWrite(WriteAttempt* attempt,
                                            const absl::Status& status,
                                            Clock::time_point now) {
  WriteEnd end;
  const SlotIndex slot = attempt->slot;
  const std::uint32_t drive = attempt->drive;
  shares_.End(drive, status.ok(), now);
  const bool fences = CountWrite(drive, status);
  end.again = Leaves(*attempt, status) && HasOtherDrive(attempt);
  const bool hastened = FindHastened(slot).has_value();
  if (status.ok() && !end.again) {
    entries_[slot].holds = true;
  } else {
    Forget(slot);
  }
  RemoveUser(slot);
  if (end.again) Take(attempt, now);
  if (end.again && hastened) Hasten(slot);
  if (fences) end.fenced = Describe(drive, status);
  return end;
}

/// Whether the page of an attempt that has ended is wanted still, and better on another drive.
bool DrivePlaces::Leaves(const WriteAttempt& attempt, const absl::Status& status) const {
  if (!entries_[attempt.slot].on_its_way()) return false;
  if (status.ok()) return drives_[attempt.drive].fenced;
  return OthersMayTake(status);
}

/// Whether there is one that has not refused the page; the attempt's own has now.
bool DrivePlaces::HasOtherDrive(WriteAttempt* attempt) const {
  attempt->refused.resize(drives_.size());
  attempt->refused[attempt->drive] = true;
  return ChooseDrive(attempt->refused).has_value();
}

// --- reads ------------------------------------------------------------------------------------

absl::StatusOr<std::uint32_t> DrivePlaces::BeginRead(SlotIndex slot, Clock::time_point now) {
  SLUICE_RETURN_IF_ERROR(CheckSlot(slot));
  const std::optional<std::uint32_t> drive = FindAcknowledged(slot);
  if (!drive.has_value()) {
    return absl::NotFoundError(
        base::ToAbsl(fmt::format("slot {}: holds no acknowledged page", slot)));
  }
  ++entries_[slot].users;
  shares_.Begin(*drive, now);
  return *drive;
}

std::optional<FencedDrive> DrivePlaces::EndRead(SlotIndex slot,
                                                const absl::Status& status,
                                                Clock::time_point now) {
  Entry& entry = entries_[slot];
  const std::uint32_t drive = entry.drive;
  shares_.End(drive, status.ok(), now);
  std::optional<FencedDrive> fenced;
  if (CountRead(drive, slot, status)) fenced = Describe(drive, status);
  if (IsMediumFault(status) && !std::exchange(entry.lost, true)) ++drives_[drive].retired;
  RemoveUser(slot);
  return fenced;
}

// --- where pages are --------------------------------------------------------------------------

std::optional<std::uint32_t> DrivePlaces::FindDrive(SlotIndex slot) const {
  const Entry& entry = entries_[slot];
  return entry.taken && !entry.forgotten ? std::optional(entry.drive) : std::nullopt;
}

std::optional<std::uint32_t> DrivePlaces::FindAcknowledged(SlotIndex slot) const {
  return entries_[slot].holds ? FindDrive(slot) : std::nullopt;
}

std::optional<std::uint32_t> DrivePlaces::FindHastened(SlotIndex slot) const {
  const Entry& entry = entries_[slot];
  return entry.hastened && entry.on_its_way() ? std::optional(entry.drive) : std::nullopt;
}

void DrivePlaces::Hasten(SlotIndex slot) {
  if (entries_[slot].on_its_way()) entries_[slot].hastened = true;
}

void DrivePlaces::Forget(SlotIndex slot) {
  Entry& entry = entries_[slot];
  entry.forgotten = entry.taken;
  if (entry.forgotten && entry.users == 0) GiveBack(slot);
}

void DrivePlaces::RemoveUser(SlotIndex slot) {
  Entry& entry = entries_[slot];
  const bool in_use = --entry.users > 0;
  if (entry.forgotten && !in_use) GiveBack(slot);
}

void DrivePlaces::GiveBack(SlotIndex slot) {
  const Entry entry = std::exchange(entries_[slot], Entry{});
  if (!entry.lost) ++drives_[entry.drive].free_places;
}

// --- fencing ----------------------------------------------------------------------------------

bool DrivePlaces::CountWrite(std::uint32_t drive, const absl::Status& status) {
  int& errors = drives_[drive].write_errors;
  if (status.ok()) errors = 0;
  return WriteSpeaksAgainstDrive(status) && CountError(drive, &errors);
}

bool DrivePlaces::CountRead(std::uint32_t drive, SlotIndex slot, const absl::Status& status) {
  Drive& read = drives_[drive];
  if (status.ok()) read.read_errors = 0;
  const bool again = IsDriveFault(status) && read.refused == slot;
  read.refused = IsDriveFault(status) ? std::optional(slot) : std::nullopt;
  return !again && ReadSpeaksAgainstDrive(status) && CountError(drive, &read.read_errors);
}

bool DrivePlaces::CountError(std::uint32_t drive, int* errors) {
  bool& fenced = drives_[drive].fenced;
  if (fenced) return false;
  fenced = ++*errors >= options_.errors_to_fence && !IsLast(drive);
  return fenced;
}

/// The last drive is not given up: there is no other that could take its pages.
bool DrivePlaces::IsLast(std::uint32_t drive) const {
  for (std::uint32_t i = 0; i < drives_.size(); ++i) {
    if (i != drive && !drives_[i].fenced) return false;
  }
  return true;
}

FencedDrive DrivePlaces::Describe(std::uint32_t drive, const absl::Status& last) const {
  FencedDrive described{
      .directory = options_.directories[drive],
      .cause = base::Annotate(
          last, fmt::format("{} errors in a row, the last", options_.errors_to_fence))};
  Unmark(&described.cause);
  for (SlotIndex slot = 0; slot < options_.slots; ++slot) {
    if (FindDrive(slot) == drive) described.slots.push_back(slot);
  }
  return described;
}

}  // namespace sluice::io
