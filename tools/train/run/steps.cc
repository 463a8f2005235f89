#include "tools/train/run/steps.h"

#include <bit>
#include <chrono>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::tools {

namespace {

bool SameBits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

double SumSeconds(std::span<const StepOutcome> outcomes) {
  double sum = 0;
  for (const StepOutcome& outcome : outcomes) sum += outcome.seconds;
  return sum;
}

std::string DescribeDifference(int step, const StepOutcome& mine, const StepOutcome& in_ram) {
  if (!SameBits(mine.loss, in_ram.loss)) {
    return fmt::format(
        "the loss of step {} is {:.9g}, in RAM {:.9g}", step, mine.loss, in_ram.loss);
  }
  if (mine.validated == in_ram.validated && SameBits(mine.val_loss, in_ram.val_loss)) return "";
  return fmt::format("the validation {} gives {:.9g}, in RAM {:.9g}",
                     step == 0 ? "before the first step" : fmt::format("after step {}", step),
                     mine.val_loss,
                     in_ram.val_loss);
}

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
