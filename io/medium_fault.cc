#include "io/medium_fault.h"

#include "absl/strings/cord.h"

namespace sluice::io {
namespace {

constexpr absl::string_view kMark = "sluice/io/medium-fault";

}  // namespace

absl::Status MarkMediumFault(absl::Status status) {
  status.SetPayload(kMark, absl::Cord());
  return status;
}

bool IsMediumFault(const absl::Status& status) {
  return !status.ok() && status.GetPayload(kMark).has_value();
}

void UnmarkMediumFault(absl::Status* status) { status->ErasePayload(kMark); }

}  // namespace sluice::io
