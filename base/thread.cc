#include "base/thread.h"

#include <string>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::base {

absl::StatusOr<std::thread> StartThread(absl::AnyInvocable<void()> body) {
  // std::thread has no other way to say it; nothing is thrown on from here.
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(ToAbsl(
        fmt::format("a thread cannot be started: {}; see ulimit -u, pids.max of the control group "
                    "and kernel.threads-max",
                    ErrnoName(error.code().value()))));
  }
}

}  // namespace sluice::base
