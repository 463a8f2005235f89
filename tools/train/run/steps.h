#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "workloads/gpt/model/config.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::tools {

/// Number of steps that the paged run and the run in RAM make in turn.
inline constexpr int kBlockSteps = 5;

/// Number of steps before a link gets its pace when there is no run in RAM. The usual step is the
/// second, and its schedule is known when the third has begun.
inline constexpr int kUnpacedStepsAlone = 3;

/// Outcome of one step. The processes send each other its bytes as they are in memory.
struct StepOutcome {
  float loss = 0;
  /// Mean loss over the validation batches after the step; valid only if `validated`.
  float val_loss = 0;
  std::uint64_t validated = 0;
  /// Seconds of the training step alone.
  double seconds = 0;
  /// Part of `seconds` that updates of parameters took; only in RAM, where they are ops among the
  /// others.
  double update_seconds = 0;
};

/// Whether a validation follows the step: every val_every steps, and after the last one.
bool ValidatesAfter(int step, const gpt::TrainConfig& train);

/// Update time of the trainer's next step: deferred unless a validation follows it.
gpt::UpdateTime UpdateTimeOfNext(const gpt::Trainer& trainer, const gpt::TrainConfig& train);

/// Makes the next step, and times it. Errors: those of Trainer::Step.
absl::StatusOr<gpt::StepResult> TrainOnce(gpt::Trainer& trainer,
                                          gpt::UpdateTime update,
                                          StepOutcome* outcome);

/// Seconds of all steps together.
double SumSeconds(std::span<const StepOutcome> outcomes);

/// Difference of the losses of a run and of the run in RAM, bit by bit, as a sentence; empty when
/// there is none. `step` 0: before the first one.
std::string DescribeDifference(int step, const StepOutcome& mine, const StepOutcome& in_ram);

/// Makes the validation that is due after the trainer's last step, if one is.
absl::Status ValidateIfDue(gpt::Trainer& trainer,
                           const gpt::TrainConfig& train,
                           StepOutcome* outcome);

}  // namespace sluice::tools
