#include "io/medium_fault.h"

#include <cerrno>
#include <utility>

#include "absl/strings/cord.h"

namespace sluice::io {
namespace {

constexpr absl::string_view kMediumFault = "sluice/io/medium-fault";
constexpr absl::string_view kWithoutIo = "sluice/io/without-io";

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

absl::Status MarkMediumFault(absl::Status status) { return Mark(std::move(status), kMediumFault); }
bool IsMediumFault(const absl::Status& status) { return IsMarked(status, kMediumFault); }

absl::Status MarkWithoutIo(absl::Status status) { return Mark(std::move(status), kWithoutIo); }
bool IsWithoutIo(const absl::Status& status) { return IsMarked(status, kWithoutIo); }

void Unmark(absl::Status* status) {
  status->ErasePayload(kMediumFault);
  status->ErasePayload(kWithoutIo);
}

}  // namespace sluice::io
