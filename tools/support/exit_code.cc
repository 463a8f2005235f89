#include "tools/support/exit_code.h"

#include <cstdio>
#include <string>

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::tools {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
      return kExitUserError;
    default:
      return kExitDeviceFailure;
  }
}

void PrintError(std::string_view message) {
  // fmt::print would throw where standard error takes nothing.
  const std::string line = fmt::format("sluice: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int Fail(const absl::Status& status) {
  PrintError(base::ToStd(status.message()));
  return ExitCodeOf(status);
}

}  // namespace sluice::tools
