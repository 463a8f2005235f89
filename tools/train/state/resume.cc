#include "tools/train/state/resume.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/optimizer.h"

namespace sluice::tools {
namespace {

void PassOver(const FoundSave& save, const absl::Status& why, ResumableSaves* resumable) {
  if (resumable->first_refusal.ok()) resumable->first_refusal = why;
  resumable->passed_over.push_back(
      fmt::format("{}: {}",
                  std::filesystem::path(save.directory).filename().string(),
                  base::ToStd(why.message())));
}

/// Whether the error tells of the save itself: it is damaged, incomplete or of another run. Any
/// other error may pass (no memory, no descriptor left, no right, a disk that does not answer). The
/// save is then as good as before.
bool IsOfSave(const absl::Status& error) {
  return absl::IsDataLoss(error) || absl::IsInvalidArgument(error) || absl::IsNotFound(error);
}

absl::Status CannotTell(const FoundSave& save,
                        const absl::Status& why,
                        const ResumableSaves& resumable) {
  return absl::Status(
      why.code(),
      base::ToAbsl(fmt::format("{}: {}; the save in {} may be good: try again, or move it away to "
                               "go on from an older one",
                               resumable.flag,
                               base::ToStd(why.message()),
                               save.directory)));
}

/// Code of a refusal. Users can mend the fault of a save, by naming another, but not that of a
/// disk.
absl::StatusCode CodeOf(const absl::Status& refusal) {
  return absl::IsDataLoss(refusal) ? absl::StatusCode::kFailedPrecondition : refusal.code();
}

/// Errors are told as they are where there is one save only.
absl::Status NoneIsGood(const ResumableSaves& resumable) {
  if (resumable.flag == "--resume" && resumable.passed_over.size() == 1) {
    return base::Annotate(resumable.first_refusal, resumable.flag);
  }
  return absl::Status(
      CodeOf(resumable.first_refusal),
      base::ToAbsl(fmt::format("{}: no save in {} can be gone on from: {}; to begin anew name "
                               "another directory, or move the saves away",
                               resumable.flag,
                               resumable.directory,
                               fmt::join(resumable.passed_over, "; "))));
}

absl::StatusOr<SavedRun> Describe(const FoundSave& save,
                                  const TrainFlags& flags,
                                  const std::string& text_hash) {
  const std::string_view begin_anew =
      flags.state_path.empty() ? "without --resume" : "with another --state";
  SLUICE_ASSIGN_OR_RETURN(SavedRun run,
                          CheckSavedRun(save.directory, flags.settings, text_hash, begin_anew));
  if (save.step < 0 || save.step == run.step) return run;
  return absl::DataLossError(
      fmt::format("{} is of step {}, another one than its name says; use another save",
                  save.directory,
                  run.step));
}

/// Saves of the run. If there is none, the error is that of reading one.
absl::StatusOr<std::vector<FoundSave>> SavesOf(const TrainFlags& flags,
                                               const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<FoundSave> saves, ListSaves(directory));
  if (saves.empty() && flags.state_path.empty()) saves.push_back({directory, -1});
  return saves;
}

absl::Status CheckStepsLeft(const ResumableSaves& resumable, const TrainFlags& flags) {
  const int steps = flags.settings.train.steps;
  if (resumable.flag != "--resume" || resumable.step() < steps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--resume: {} steps are done already, and \"train.steps\" is {}; raise it",
                  resumable.step(),
                  steps));
}

}  // namespace

absl::StatusOr<ResumableSaves> FindResumableSaves(const TrainFlags& flags,
                                                  const std::string& text_hash) {
  const bool has_state = !flags.state_path.empty();
  if (!has_state && flags.resume_path.empty()) return ResumableSaves();
  ResumableSaves resumable{.flag = has_state ? "--state" : "--resume",
                           .directory = has_state ? flags.state_path : flags.resume_path};
  absl::StatusOr<std::vector<FoundSave>> saves = SavesOf(flags, resumable.directory);
  if (!saves.ok()) return base::Annotate(saves.status(), resumable.flag);
  for (FoundSave& save : *saves) {
    absl::StatusOr<SavedRun> run = Describe(save, flags, text_hash);
    if (run.ok()) {
      resumable.candidates.push_back({std::move(save), *std::move(run)});
    } else if (IsOfSave(run.status())) {
      PassOver(save, run.status(), &resumable);
    } else {
      return CannotTell(save, run.status(), resumable);
    }
  }
  if (resumable.candidates.empty() && !saves->empty()) return NoneIsGood(resumable);
  SLUICE_RETURN_IF_ERROR(CheckStepsLeft(resumable, flags));
  return resumable;
}

absl::StatusOr<ResumableSaves::Candidate> LoadNewest(
    const std::function<absl::Status(const std::string& directory)>& load,
    ResumableSaves* resumable) {
  for (const ResumableSaves::Candidate& candidate : resumable->candidates) {
    const absl::Status loaded = load(candidate.save.directory);
    if (loaded.ok()) return candidate;
    if (!IsOfSave(loaded)) return CannotTell(candidate.save, loaded, *resumable);
    PassOver(candidate.save, loaded, resumable);
  }
  return NoneIsGood(*resumable);
}

}  // namespace sluice::tools
