#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/run/child_process.h"
#include "tools/train/run/steps.h"
#include "tools/train/settings/train_settings.h"
#include "workloads/gpt/model/text.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::tools {

/// A run of the same training entirely in RAM, in a process of its own, with which --verify
/// compares. The process computes only inside the calls below. Between them it waits for a message.
/// Threads: externally synchronised.
class RamRun {
 public:
  /// Starts the process with the same configuration, on the same text, from the same weights, up to
  /// the validation before the first step. `init_path`: file of the weights; empty: those of the
  /// seed. `stop`, here and below, is asked while the child keeps this process waiting. True:
  /// Cancelled, and no further call is allowed. Errors: also those of the child.
  static absl::StatusOr<RamRun> Start(const ConfigText& config,
                                      const gpt::Text& text,
                                      const std::string& init_path,
                                      const gpt::StopFn& stop = {});

  float first_val_loss() const { return first_val_loss_; }
  absl::StatusOr<std::vector<StepOutcome>> RunSteps(int count, const gpt::StopFn& stop = {});
  /// Compares every parameter and optimizer state bit for bit. Returns an empty text when all are
  /// the same, else a sentence that names the first tensor that differs and the offset in it.
  absl::StatusOr<std::string> CompareState(gpt::Trainer& trainer, const gpt::StopFn& stop = {});

 private:
  RamRun(ChildProcess child, float first_val_loss)
      : child_(std::move(child)), first_val_loss_(first_val_loss) {}
  Channel& channel() { return child_.channel(); }

  ChildProcess child_;
  float first_val_loss_;
};

}  // namespace sluice::tools
