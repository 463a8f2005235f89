#include "tools/train/state/run_state.h"

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::tools {

absl::StatusOr<std::unique_ptr<StateDirectory>> OpenStateDirectory(const TrainFlags& flags,
                                                                   Console& console) {
  if (flags.state_path.empty()) return nullptr;
  auto directory = StateDirectory::Open({.path = flags.state_path});
  if (!directory.ok()) return base::Annotate(directory.status(), "--state");
  for (const std::string& name : (*directory)->removed()) {
    console.Print(
        fmt::format("removed {}/{}: a run ended while it saved there\n", flags.state_path, name));
  }
  const DirectoryLock& lock = (*directory)->lock();
  if (!lock.held()) {
    console.Log(
        LogLevel::kWarning,
        fmt::format("fallback: --state: no lock keeps another run out ({}); start no second "
                    "one with {}, and nothing that a killed run left is removed",
                    lock.why_not(),
                    flags.state_path));
  }
  return directory;
}

void PrintPassedOver(const ResumableSaves& resumable, Console& console) {
  for (const std::string& save : resumable.passed_over) {
    console.Log(LogLevel::kWarning, fmt::format("{}: passed over {}", resumable.flag, save));
  }
}

absl::Status CheckSavePlace(const TrainFlags& flags) {
  const bool has_place = !flags.state_path.empty() || !flags.save_state_path.empty();
  if (flags.settings.save_every.none() || has_place) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "\"train.save_every\" is set, but there is no place to save to; add --state DIR, or leave "
      "the "
      "key out");
}

}  // namespace sluice::tools
