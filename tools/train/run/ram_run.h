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

/// The same training entirely in RAM, in a process of its own: what --verify compares with. It
/// computes only inside the calls below; between them it waits for a message.
/// Threads: externally synchronised.
class RamRun {
 public:
  /// Starts it with the same configuration, on the same text, from the same weights (`init_path`,
  /// empty: those of the seed), up to the validation before the first step. Errors: also what the
  /// child says. `stop`, here and below: asked while the child keeps this process waiting; true:
  /// Cancelled, and no further call is allowed.
  static absl::StatusOr<RamRun> Start(const ConfigText& config,
                                      const gpt::Text& text,
                                      const std::string& init_path,
                                      const gpt::StopFn& stop = {});

  float first_val_loss() const { return first_val_loss_; }
  absl::StatusOr<std::vector<StepOutcome>> RunSteps(int count, const gpt::StopFn& stop = {});
  /// Compares every parameter and optimizer state bit for bit: empty when all are the same, else a
  /// sentence that names the first tensor that differs and the offset in it.
  absl::StatusOr<std::string> CompareState(gpt::Trainer& trainer, const gpt::StopFn& stop = {});

 private:
  RamRun(ChildProcess child, float first_val_loss)
      : child_(std::move(child)), first_val_loss_(first_val_loss) {}
  Channel& channel() { return child_.channel(); }

  ChildProcess child_;
  float first_val_loss_;
};

}  // namespace sluice::tools
