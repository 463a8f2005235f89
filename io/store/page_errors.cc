#include "io/store/page_errors.h"

#include <cerrno>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/store/medium_fault.h"

namespace sluice::io {
namespace {

absl::StatusCode CodeOf(IoDirection direction, int error_number) {
  if (IsMediumErrno(error_number)) {
    // A read ends like this if the medium does not give the bytes back after all attempts.
    return direction == IoDirection::kRead ? absl::StatusCode::kDataLoss
                                           : absl::StatusCode::kInternal;
  }
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EINTR:
    case EAGAIN:
    case ENOMEM:
    case ECANCELED:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

std::string Describe(const PageAddress& address, std::string_view what) {
  return fmt::format("slot {}: {}: {}", address.slot, ToString(address.identity), what);
}

absl::Status DescribeFailure(const PageAddress& address,
                             IoDirection direction,
                             const TransferResult& result) {
  const std::string_view verb = direction == IoDirection::kRead ? "read" : "write";
  const std::string what = fmt::format("{} failed after {} attempt{}: {}",
                                       verb,
                                       result.attempts,
                                       result.attempts == 1 ? "" : "s",
                                       base::DescribeErrno(result.error_number));
  absl::Status status(CodeOf(direction, result.error_number),
                      base::ToAbsl(Describe(address, what)));
  if (absl::IsDataLoss(status)) return MarkMediumFault(std::move(status));
  return IsDriveErrno(result.error_number) ? MarkDriveFault(std::move(status)) : status;
}

}  // namespace sluice::io
