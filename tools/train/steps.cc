#include "tools/train/steps.h"

#include <chrono>

#include "base/status.h"

namespace sluice::tools {

bool ValidatesAfter(int step, const gpt::TrainConfig& train) {
  return step % train.val_every == 0 || step == train.steps;
}

gpt::UpdateTime UpdateTimeOfNext(const gpt::Trainer& trainer, const gpt::TrainConfig& train) {
  const bool validates = ValidatesAfter(trainer.step() + 1, train);
  return validates ? gpt::UpdateTime::kNow : gpt::UpdateTime::kDeferred;
}

absl::StatusOr<gpt::StepResult> TrainOnce(gpt::Trainer& trainer,
                                          gpt::UpdateTime update,
                                          StepOutcome* outcome) {
  const auto begin = std::chrono::steady_clock::now();
  SLUICE_ASSIGN_OR_RETURN(const gpt::StepResult result, trainer.Step(update));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  outcome->loss = result.loss;
  outcome->seconds = elapsed.count();
  return result;
}

absl::Status ValidateIfDue(gpt::Trainer& trainer,
                           const gpt::TrainConfig& train,
                           StepOutcome* outcome) {
  if (!ValidatesAfter(trainer.step(), train)) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(outcome->val_loss, trainer.Validate());
  outcome->validated = 1;
  return absl::OkStatus();
}

}  // namespace sluice::tools
