#include "io/drive_outcomes.h"

#include "base/status.h"
#include "fmt/format.h"
#include "io/mutants.h"

namespace sluice::io {

bool DriveOutcomes::Note(const absl::Status& status, bool may_fence, int* errors) {
  if (status.ok()) *errors = 0;
  if (!SpeaksAgainstDrive(status) || fenced_) return false;
  fenced_ = ++*errors >= errors_to_fence_ && may_fence && !SLUICE_MUTANT("never-fence");
  return fenced_;
}

absl::Status DriveOutcomes::CauseOf(const absl::Status& last) const {
  return base::Annotate(last, fmt::format("{} errors in a row, the last", errors_to_fence_));
}

bool SpeaksAgainstDrive(const absl::Status& status) {
  return absl::IsInternal(status) || absl::IsDataLoss(status);
}

bool OthersMayTake(const absl::Status& status) {
  return SpeaksAgainstDrive(status) || absl::IsUnavailable(status) ||
         absl::IsResourceExhausted(status);
}

}  // namespace sluice::io
