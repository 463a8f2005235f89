#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Status helpers: the mapping from errno, and the two macros for early return.

namespace sluice::base {

/// The status for a failed system call. `what` names the call and its object ("open /var/tmp/x").
/// The message ends with the errno's name and text.
///
/// | ENOSPC, EDQUOT, EFBIG, ENOMEM | ResourceExhausted |
/// | EPERM, EACCES | PermissionDenied |
/// | ENOENT | NotFound |
/// | EEXIST | AlreadyExists |
/// | EROFS | FailedPrecondition |
/// | EINVAL, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG | InvalidArgument |
/// | ETIMEDOUT | DeadlineExceeded |
/// | EAGAIN, EINTR | Unavailable |
/// | others | Internal |
absl::Status StatusFromErrno(int error_number, std::string_view what);

/// The symbolic name of an errno ("ENOSPC"), or "unknown errno".
std::string_view ErrnoName(int error_number);
/// Name and text of an errno: "ENOSPC (No space left on device)". A number that drivers answer
/// beside the rules is "unknown errno 524".
std::string DescribeErrno(int error_number);

/// `status` with `context` put before its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view context);

}  // namespace sluice::base

/// Returns from the enclosing function when the expression is not OK.
#define SLUICE_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (absl::Status sluice_status_ = (expression); !sluice_status_.ok()) { \
      return sluice_status_;                                                \
    }                                                                       \
  } while (false)

#define SLUICE_STATUS_CONCAT_INNER_(a, b) a##b
#define SLUICE_STATUS_CONCAT_(a, b) SLUICE_STATUS_CONCAT_INNER_(a, b)
#define SLUICE_ASSIGN_OR_RETURN_IMPL_(result, target, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return std::move(result).status();            \
  target = std::move(result).value()

/// Assigns the value of a StatusOr expression to `target`, or returns its error.
#define SLUICE_ASSIGN_OR_RETURN(target, expression) \
  SLUICE_ASSIGN_OR_RETURN_IMPL_(SLUICE_STATUS_CONCAT_(sluice_result_, __LINE__), target, expression)
