#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/child_process.h"
#include "tools/train/steps.h"
#include "tools/train/train_settings.h"
#include "workloads/gpt/text.h"

namespace sluice::tools {

/// The same training once more, in RAM, in a process of its own. It computes only inside the calls
/// below; between them it waits for a message. Threads: externally synchronised.
class ChildRun {
 public:
  /// Starts it, up to the validation before the first step. Errors: also what the child says.
  static absl::StatusOr<ChildRun> Start(const ConfigText& config, const gpt::Text& text);

  float first_val_loss() const { return first_val_loss_; }
  absl::StatusOr<std::vector<StepOutcome>> RunSteps(int count);

  Channel& channel() { return child_.channel(); }

 private:
  ChildRun(ChildProcess child, float first_val_loss)
      : child_(std::move(child)), first_val_loss_(first_val_loss) {}

  ChildProcess child_;
  float first_val_loss_;
};

}  // namespace sluice::tools
