#include "base/status.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::base {
namespace {

absl::StatusCode CodeFromErrno(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EPERM:
    case EACCES:
      return absl::StatusCode::kPermissionDenied;
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EROFS:
      return absl::StatusCode::kFailedPrecondition;
    case EINVAL:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    case ETIMEDOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case EAGAIN:
    case EINTR:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

std::string_view ErrnoName(int error_number) {
  const char* name = strerrorname_np(error_number);
  return name == nullptr ? std::string_view("unknown errno") : std::string_view(name);
}

std::string DescribeErrno(int error_number) {
  // Nobody here cancels a request: io_uring answers so where it can start no worker thread.
  if (error_number == ECANCELED) {
    return "ECANCELED (io_uring could start no worker thread; see ulimit -u)";
  }
  const char* description = strerrordesc_np(error_number);
  return description == nullptr ? fmt::format("{} {}", ErrnoName(error_number), error_number)
                                : fmt::format("{} ({})", ErrnoName(error_number), description);
}

absl::Status StatusFromErrno(int error_number, std::string_view what) {
  return absl::Status(CodeFromErrno(error_number),
                      ToAbsl(fmt::format("{}: {}", what, DescribeErrno(error_number))));
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  const std::string message = fmt::format("{}: {}", context, ToStd(status.message()));
  absl::Status annotated(status.code(), ToAbsl(message));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

}  // namespace sluice::base
