#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/drives/drive_meter.h"
#include "io/drives/drive_outcomes.h"
#include "io/drives/drive_places.h"
#include "io/drives/drive_set.h"

namespace sluice::io {

/// A write on its way to one of several drives.
struct WriteAttempt {
  SlotIndex slot = 0;
  Place place;
  std::vector<bool> refused;  ///< drives that have refused it; empty: none has
};

/// Knowledge of a drive set: the drive to write next, the place of each page, and the drives that
/// have failed. The ledger starts no I/O and asks no clock: callers tell it.
/// Threads: externally synchronised.
class DriveLedger {
 public:
  using Clock = DriveMeter::Clock;

  explicit DriveLedger(const DriveSetOptions& options);

  /// A place for a page; what the slot held before is gone. Errors: InvalidArgument (no such slot),
  /// FailedPrecondition (an operation of the slot is on its way), ResourceExhausted (no drive has
  /// room).
  absl::StatusOr<WriteAttempt> BeginWrite(SlotIndex slot, Clock::time_point now);
  struct WriteEnd {
    bool again = false;  ///< the attempt has another place, where it begins now
    std::optional<FencedDrive> fenced;
  };
  /// A page that its drive refused, or took when it had failed already, goes to another with room.
  WriteEnd EndWrite(WriteAttempt* attempt, const absl::Status& status, Clock::time_point now);

  /// Place of a page. Errors: InvalidArgument (no such slot), NotFound (nothing acknowledged).
  absl::StatusOr<Place> BeginRead(SlotIndex slot, Clock::time_point now);
  std::optional<FencedDrive> EndRead(SlotIndex slot,
                                     const Place& place,
                                     const absl::Status& status,
                                     Clock::time_point now);

  void Forget(SlotIndex slot) { places_.Forget(slot); }
  /// Somebody waits for the page that is being written, wherever it goes.
  void Hasten(SlotIndex slot) { places_.Hasten(slot); }
  /// Place of the page that is being written and waited for; none when none is.
  std::optional<Place> FindHastened(SlotIndex slot) const { return places_.FindHastened(slot); }
  /// Place of the page, if it was acknowledged. The call counts as no read.
  std::optional<Place> FindAcknowledged(SlotIndex slot) const {
    return places_.FindAcknowledged(slot);
  }
  /// Counts of the ledger, without those of the drive's store.
  DriveStats StatsOf(std::uint32_t drive) const;

 private:
  struct Drive {
    DriveMeter meter;
    DriveOutcomes outcomes;
    double rate_at_start = 0;
    SlotIndex slots = 0;
    SlotIndex retired = 0;
  };

  absl::Status CheckSlot(SlotIndex slot) const;
  absl::Status NoRoom(SlotIndex slot) const;
  bool Take(WriteAttempt* attempt, Clock::time_point now);
  bool Leaves(const WriteAttempt& attempt, const absl::Status& status) const;
  bool HasOtherDrive(WriteAttempt* attempt) const;
  std::optional<std::uint32_t> ChooseDrive(const std::vector<bool>& refused) const;
  void TakeTurn(std::uint32_t chosen, Clock::time_point now);
  void EndOnMeter(std::uint32_t drive, const absl::Status& status, Clock::time_point now);
  /// True if another drive is left that is not fenced.
  bool MayFence(std::uint32_t drive) const;
  FencedDrive Fenced(std::uint32_t drive, const absl::Status& last) const;

  const DriveSetOptions options_;
  std::vector<Drive> drives_;
  DrivePlaces places_;
};

}  // namespace sluice::io
