#include "io/engine/choose_engine.h"

#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::io {
namespace {

absl::Status RequiredButRefused(std::string_view reason) {
  return absl::FailedPreconditionError(
      base::ToAbsl(fmt::format("io_uring is required but refused: {}; io.io_uring = \"auto\" "
                               "allows pread and pwrite on threads",
                               reason)));
}

}  // namespace

absl::StatusOr<ChosenEngine> ChooseEngine(const IoEngineOptions& options, Use io_uring) {
  ChosenEngine chosen;
  if (io_uring == Use::kOff) {
    chosen.reason = std::string(kOffByOption);
  } else {
    absl::StatusOr<std::unique_ptr<IoEngine>> ring = MakeUringEngine(options);
    if (ring.ok()) return ChosenEngine{.engine = *std::move(ring)};
    chosen.reason = std::string(base::ToStd(ring.status().message()));
  }
  if (io_uring == Use::kRequire) return RequiredButRefused(chosen.reason);
  SLUICE_ASSIGN_OR_RETURN(chosen.engine, MakeThreadEngine(options));
  return chosen;
}

}  // namespace sluice::io
