#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/drives/drive_shares.h"
#include "io/store/page_store.h"

namespace sluice::io {

/// A drive that has failed, and why it counts as failed.
struct FencedDrive {
  std::string directory;
  /// Slots with pages on this drive, writes in flight included. A write in flight stays there only
  /// if no other drive has room.
  std::vector<SlotIndex> slots;
  absl::Status cause;
};

/// A write on its way to one of several drives.
struct WriteAttempt {
  SlotIndex slot = 0;
  std::uint32_t drive = 0;
  std::vector<bool> refused;  ///< drives that have refused it; empty: none has
};

struct DrivePlacesOptions {
  SlotIndex slots = 0;                   ///< slots of all drives together
  std::vector<std::string> directories;  ///< one per drive
  std::vector<SlotIndex> places;         ///< pages that each drive holds
  /// Errors in a row after which a drive is fenced: writes that fail, or reads that lose a page or
  /// find the drive gone. Each read is of another slot than the one before.
  int errors_to_fence = 3;
};

/// Knowledge of a drive set: the drive of each slot's page, the room of each drive, and the drives
/// that have failed. It starts no I/O, and its callers give it the time. The place of a page in a
/// drive's files is the drive's own affair (SlotTable).
///
/// A slot has users, the operations in flight. Its drive has the room again after the last of them.
/// If the page was lost there, the drive has one place less instead.
/// Threads: externally synchronised.
class DrivePlaces {
 public:
  using Clock = DriveShares::Clock;

  DrivePlaces(DrivePlacesOptions options, DriveShares shares);

  /// Whether the slot may be written. Errors: InvalidArgument (no such slot), FailedPrecondition
  /// (an operation of the slot is on its way).
  absl::Status CheckWrite(SlotIndex slot) const;
  /// A drive for the slot's next page. Errors: ResourceExhausted (no drive has room). REQUIRES:
  /// CheckWrite succeeds, and FindDrive finds none.
  absl::StatusOr<WriteAttempt> BeginWrite(SlotIndex slot, Clock::time_point now);
  struct WriteEnd {
    bool again = false;  ///< the attempt has another drive, where it begins now
    std::optional<FencedDrive> fenced;
  };
  /// A page that its drive refused, or took when it had failed already, goes to another with room.
  WriteEnd EndWrite(WriteAttempt* attempt, const absl::Status& status, Clock::time_point now);

  /// The drive that has the page. Errors: InvalidArgument (no such slot), NotFound (nothing
  /// acknowledged).
  absl::StatusOr<std::uint32_t> BeginRead(SlotIndex slot, Clock::time_point now);
  std::optional<FencedDrive> EndRead(SlotIndex slot,
                                     const absl::Status& status,
                                     Clock::time_point now);

  /// Forgets the slot's page at once, and its drive after the last user.
  void Forget(SlotIndex slot);
  /// Hastens the page that is being written, wherever it goes. Does nothing if there is none.
  void Hasten(SlotIndex slot);

  // The drive of the slot's page. None if the slot is forgotten.
  /// Acknowledged or on its way there.
  std::optional<std::uint32_t> FindDrive(SlotIndex slot) const;
  std::optional<std::uint32_t> FindAcknowledged(SlotIndex slot) const;
  /// Drive to which a hastened write of the slot is on its way; none: there is no such write.
  std::optional<std::uint32_t> FindHastened(SlotIndex slot) const;

  bool fenced(std::uint32_t drive) const { return drives_[drive].fenced; }
  const DriveShares& shares() const { return shares_; }

 private:
  struct Entry {
    std::uint32_t drive = 0;
    std::uint32_t users = 0;
    bool taken = false;
    bool forgotten = false;
    bool holds = false;  ///< true once the slot's page was acknowledged
    bool hastened = false;
    bool lost = false;  ///< true if the medium lost the slot's page

    bool on_its_way() const { return taken && !holds && !forgotten; }
  };
  struct Drive {
    SlotIndex free_places = 0;
    SlotIndex retired = 0;  ///< places that lost a page
    bool fenced = false;
    // Two counters: a drive may take pages and give none back.
    int write_errors = 0;
    int read_errors = 0;
    /// Slot of the last refused read. Another refusal of it says nothing new.
    std::optional<SlotIndex> refused;
  };

  absl::Status CheckSlot(SlotIndex slot) const;
  absl::Status NoRoom(SlotIndex slot) const;
  bool Take(WriteAttempt* attempt, Clock::time_point now);
  bool Leaves(const WriteAttempt& attempt, const absl::Status& status) const;
  bool HasOtherDrive(WriteAttempt* attempt) const;
  std::optional<std::uint32_t> ChooseDrive(const std::vector<bool>& refused) const;
  void RemoveUser(SlotIndex slot);
  void GiveBack(SlotIndex slot);

  // Counts the outcome of a write or read. Returns whether it fences the drive.
  bool CountWrite(std::uint32_t drive, const absl::Status& status);
  bool CountRead(std::uint32_t drive, SlotIndex slot, const absl::Status& status);
  bool CountError(std::uint32_t drive, int* errors);
  bool IsLast(std::uint32_t drive) const;
  FencedDrive Describe(std::uint32_t drive, const absl::Status& last) const;

  const DrivePlacesOptions options_;
  DriveShares shares_;
  std::vector<Drive> drives_;
  std::vector<Entry> entries_;
};

}  // namespace sluice::io
