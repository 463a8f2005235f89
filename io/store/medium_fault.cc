#include "io/store/medium_fault.h"

#include <cerrno>
#include <utility>

#include "absl/strings/cord.h"

namespace sluice::io {
namespace {

constexpr absl::string_view kMediumFault = "sluice/io/medium-fault";
constexpr absl::string_view kWithoutIo = "sluice/io/without-io";
constexpr absl::string_view kDriveFault = "sluice/io/drive-fault";

absl::Status Mark(absl::Status status, absl::string_view mark) {
  status.SetPayload(mark, absl::Cord());
  return status;
}

bool IsMarked(const absl::Status& status, absl::string_view mark) {
  return !status.ok() && status.GetPayload(mark).has_value();
}

}  // namespace

bool IsMediumErrno(int error_number) {
  return error_number == EIO || error_number == ENODATA || error_number == EILSEQ;
}

bool IsDriveErrno(int error_number) {
  switch (error_number) {
    case ENODEV:
    case ENXIO:
    case ENOLINK:
    case ETIMEDOUT:
    case EREMOTEIO:
    case EBADE:
    case ETIME:
    case ESHUTDOWN:
      return true;
    default:
      return false;
  }
}

absl::Status MarkMediumFault(absl::Status status) { return Mark(std::move(status), kMediumFault); }
bool IsMediumFault(const absl::Status& status) { return IsMarked(status, kMediumFault); }

absl::Status MarkWithoutIo(absl::Status status) { return Mark(std::move(status), kWithoutIo); }
bool IsWithoutIo(const absl::Status& status) { return IsMarked(status, kWithoutIo); }

absl::Status MarkDriveFault(absl::Status status) { return Mark(std::move(status), kDriveFault); }
bool IsDriveFault(const absl::Status& status) { return IsMarked(status, kDriveFault); }

void Unmark(absl::Status* status) {
  status->ErasePayload(kMediumFault);
  status->ErasePayload(kWithoutIo);
  status->ErasePayload(kDriveFault);
}

}  // namespace sluice::io
