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

void PassOver(const FoundSave& save, const absl::Status& why, ResumePlan* plan) {
  if (plan->first_refusal.ok()) plan->first_refusal = why;
  plan->passed_over.push_back(fmt::format("{}: {}",
                                          std::filesystem::path(save.directory).filename().string(),
                                          base::ToStd(why.message())));
}

/// Whether the error tells of the save itself: it is damaged, incomplete or of another run. Any
/// other error may pass (no memory, no descriptor left, no right, a disk that does not answer). The
/// save is then as good as before.
bool IsOfSave(const absl::Status& error) {
  return absl::IsDataLoss(error) || absl::IsInvalidArgument(error) || absl::IsNotFound(error);
}

absl::Status CannotTell(const FoundSave& save, const absl::Status& why, const ResumePlan& plan) {
  return absl::Status(
      why.code(),
      base::ToAbsl(fmt::format("{}: {}; the save in {} may be good: try again, or move it away to "
                               "go on from an older one",
                               plan.flag,
                               base::ToStd(why.message()),
                               save.directory)));
}

/// Code of a refusal. Users can mend the fault of a save, by naming another, but not that of a
/// disk.
absl::StatusCode CodeOf(const absl::Status& refusal) {
  return absl::IsDataLoss(refusal) ? absl::StatusCode::kFailedPrecondition : refusal.code();
}

/// Errors are told as they are where there is one save only.
absl::Status NoneIsGood(const ResumePlan& plan) {
  if (plan.flag == "--resume" && plan.passed_over.size() == 1) {
    return base::Annotate(plan.first_refusal, plan.flag);
  }
  return absl::Status(
      CodeOf(plan.first_refusal),
      base::ToAbsl(fmt::format("{}: no save in {} can be gone on from: {}; to begin anew name "
                               "another directory, or move the saves away",
                               plan.flag,
                               plan.directory,
                               fmt::join(plan.passed_over, "; "))));
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
      fmt::format("it is of step {}, another one than its name says; use another save", run.step));
}

/// Saves of the run. If there is none, the error is that of reading one.
absl::StatusOr<std::vector<FoundSave>> SavesOf(const TrainFlags& flags,
                                               const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<FoundSave> saves, ListSaves(directory));
  if (saves.empty() && flags.state_path.empty()) saves.push_back({directory, -1});
  return saves;
}

absl::Status CheckStepsLeft(const ResumePlan& plan, const TrainFlags& flags) {
  const int steps = flags.settings.train.steps;
  if (plan.flag != "--resume" || plan.step() < steps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--resume: {} steps are done already, and \"train.steps\" is {}; raise it",
                  plan.step(),
                  steps));
}

}  // namespace

absl::StatusOr<ResumePlan> PlanResume(const TrainFlags& flags, const std::string& text_hash) {
  const bool has_state = !flags.state_path.empty();
  if (!has_state && flags.resume_path.empty()) return ResumePlan();
  ResumePlan plan{.flag = has_state ? "--state" : "--resume",
                  .directory = has_state ? flags.state_path : flags.resume_path};
  absl::StatusOr<std::vector<FoundSave>> saves = SavesOf(flags, plan.directory);
  if (!saves.ok()) return base::Annotate(saves.status(), plan.flag);
  for (FoundSave& save : *saves) {
    absl::StatusOr<SavedRun> run = Describe(save, flags, text_hash);
    if (run.ok()) {
      plan.candidates.push_back({std::move(save), *std::move(run)});
    } else if (IsOfSave(run.status())) {
      PassOver(save, run.status(), &plan);
    } else {
      return CannotTell(save, run.status(), plan);
    }
  }
  if (plan.candidates.empty() && !saves->empty()) return NoneIsGood(plan);
  SLUICE_RETURN_IF_ERROR(CheckStepsLeft(plan, flags));
  return plan;
}

absl::StatusOr<ResumePlan::Candidate> LoadNewest(
    const std::function<absl::Status(const std::string& directory)>& load, ResumePlan* plan) {
  for (const ResumePlan::Candidate& candidate : plan->candidates) {
    const absl::Status loaded = load(candidate.save.directory);
    if (loaded.ok()) return candidate;
    if (!IsOfSave(loaded)) return CannotTell(candidate.save, loaded, *plan);
    PassOver(candidate.save, loaded, plan);
  }
  return NoneIsGood(*plan);
}

}  // namespace sluice::tools
