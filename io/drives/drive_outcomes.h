#pragma once

#include <optional>

#include "absl/status/status.h"
#include "io/store/page_store.h"

namespace sluice::io {

/// Outcomes of a drive's operations, and the decision whether the drive counts as failed.
/// Threads: externally synchronised.
class DriveOutcomes {
 public:
  /// `errors_to_fence`: writes in a row that fail, or reads in a row that lose a page or find the
  /// drive gone. A read counts only if it asks for another slot than the one before.
  explicit DriveOutcomes(int errors_to_fence) : errors_to_fence_(errors_to_fence) {}

  // True for the outcome, if any, that fences the drive; `may_fence` is false for the last one
  // left.
  bool NoteWrite(const absl::Status& status, bool may_fence = true);
  bool NoteRead(const absl::Status& status, SlotIndex slot, bool may_fence = true);

  bool fenced() const { return fenced_; }
  /// Error of the outcome that fenced the drive.
  absl::Status CauseOf(const absl::Status& last) const;

 private:
  bool NoteError(int* errors, bool may_fence);

  const int errors_to_fence_;
  // Two counters: a drive may take pages and give none back.
  int write_errors_ = 0;
  int read_errors_ = 0;
  /// Slot of the last refused read. Another refusal of it says nothing new.
  std::optional<SlotIndex> refused_;
  bool fenced_ = false;
};

/// True if the error of a write speaks against the drive, not against the call, the moment or the
/// space.
bool WriteSpeaksAgainstDrive(const absl::Status& status);
/// True if the drive was asked for a page and has lost it, or is gone. Every error but the first
/// leaves the page where it is.
bool ReadSpeaksAgainstDrive(const absl::Status& status);
/// True if another drive may take what one refused with this error.
bool OthersMayTake(const absl::Status& status);

}  // namespace sluice::io
