#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/drive_balance.h"
#include "io/drive_meter.h"
#include "io/drive_outcomes.h"
#include "io/drive_places.h"
#include "io/drive_set.h"

namespace sluice::io {

/// A write on its way to one of several drives.
struct WriteAttempt {
  SlotIndex slot = 0;
  Place place;
  std::vector<bool> refused;  ///< drives that have refused it; empty: none has
};

/// A read on its way to the drive that has the page.
struct ReadAttempt {
  SlotIndex slot = 0;
  Place place;
  std::uint32_t ahead = 0;  ///< operations of the drive when it began
  bool judged = false;      ///< as there had been no write for a while
  DriveMeter::Clock::time_point began;
};

/// What a drive set knows: which drive is written next, where each page is, and which drives have
/// failed. It starts no I/O and asks no clock: it is told.
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

  /// Where a page is. Errors: InvalidArgument (no such slot), NotFound (nothing acknowledged).
  absl::StatusOr<ReadAttempt> BeginRead(SlotIndex slot, Clock::time_point now);
  std::optional<FencedDrive> EndRead(const ReadAttempt& read,
                                     const absl::Status& status,
                                     Clock::time_point now);

  void Forget(SlotIndex slot) { places_.Forget(slot); }
  /// Somebody waits for the page that is being written, wherever it goes.
  void Hasten(SlotIndex slot) { places_.Hasten(slot); }
  /// Where the page is that is being written and waited for; none when none is.
  std::optional<Place> FindHastened(SlotIndex slot) const { return places_.FindHastened(slot); }
  /// What the last end of a read has shown, once; none where no page has to be written anew.
  std::optional<SlowDrive> TakeSlow() { return std::exchange(slow_, std::nullopt); }
  /// Without what the drive's store counts.
  DriveStats StatsOf(std::uint32_t drive) const;

 private:
  struct Drive {
    DriveMeter meter;
    DriveOutcomes outcomes;
    double rate_at_start = 0;
    SlotIndex slots = 0;
    std::uint32_t writes = 0;        ///< on their way
    std::size_t reads_in_a_row = 0;  ///< begun since there was none
    SlotIndex retired = 0;
    std::uint64_t rebalanced = 0;  ///< pages that were to leave
    SlotIndex coming = 0;          ///< pages that are to come for those that leave others
    SlotIndex asked = 0;           ///< as many of them as were to come
  };

  absl::Status CheckSlot(SlotIndex slot) const;
  absl::Status NoRoom(SlotIndex slot) const;
  bool Take(WriteAttempt* attempt, Clock::time_point now);
  bool Leaves(const WriteAttempt& attempt, const absl::Status& status) const;
  bool HasOtherDrive(WriteAttempt* attempt) const;
  bool MayTake(std::uint32_t drive, const std::vector<bool>& refused) const;
  std::optional<std::uint32_t> ChooseDrive(const std::vector<bool>& refused) const;
  std::optional<std::uint32_t> ChooseComing(const std::vector<bool>& refused,
                                            Clock::time_point now);
  void ForgetComing();
  void TakeTurn(std::uint32_t chosen, Clock::time_point now);
  void EndOnMeter(std::uint32_t drive, const absl::Status& status, Clock::time_point now);
  void NoteRead(const ReadAttempt& read, Clock::time_point now);
  void Rebalance(const DriveBalance::Move& move);
  std::vector<DriveBalance::Load> Loads() const;
  /// Whether another drive is left that is not fenced.
  bool MayFence(std::uint32_t drive) const;
  FencedDrive Fenced(std::uint32_t drive, const absl::Status& last) const;

  const DriveSetOptions options_;
  std::vector<Drive> drives_;
  DrivePlaces places_;
  DriveBalance balance_;
  std::optional<SlowDrive> slow_;
};

}  // namespace sluice::io
