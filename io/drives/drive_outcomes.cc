#include "io/drives/drive_outcomes.h"

#include "base/status.h"
#include "fmt/format.h"
#include "io/store/medium_fault.h"

namespace sluice::io {

bool DriveOutcomes::NoteWrite(const absl::Status& status, bool may_fence) {
  if (status.ok()) write_errors_ = 0;
  return WriteSpeaksAgainstDrive(status) && NoteError(&write_errors_, may_fence);
}

bool DriveOutcomes::NoteRead(const absl::Status& status, SlotIndex slot, bool may_fence) {
  if (status.ok()) read_errors_ = 0;
  const bool again = IsDriveFault(status) && refused_ == slot;
  refused_ = IsDriveFault(status) ? std::optional(slot) : std::nullopt;
  return !again && ReadSpeaksAgainstDrive(status) && NoteError(&read_errors_, may_fence);
}

bool DriveOutcomes::NoteError(int* errors, bool may_fence) {
  if (fenced_) return false;
  fenced_ = ++*errors >= errors_to_fence_ && may_fence;
  return fenced_;
}

absl::Status DriveOutcomes::CauseOf(const absl::Status& last) const {
  return base::Annotate(last, fmt::format("{} errors in a row, the last", errors_to_fence_));
}

bool WriteSpeaksAgainstDrive(const absl::Status& status) { return absl::IsInternal(status); }

bool ReadSpeaksAgainstDrive(const absl::Status& status) {
  return (absl::IsDataLoss(status) && !IsWithoutIo(status)) || IsDriveFault(status);
}

bool OthersMayTake(const absl::Status& status) {
  return WriteSpeaksAgainstDrive(status) || absl::IsUnavailable(status) ||
         absl::IsResourceExhausted(status);
}

}  // namespace sluice::io
