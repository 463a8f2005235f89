#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/child_run.h"
#include "tools/train/run_report.h"
#include "tools/train/steps.h"

namespace sluice::tools {

/// The same training under other policies, in turn with this one block by block: so what the
/// machine does meanwhile meets all alike. Threads: externally synchronised.
class PolicyComparison {
 public:
  /// One run per policy. See ChildRun::Start.
  static absl::StatusOr<std::unique_ptr<PolicyComparison>> Start(
      std::span<const std::string> policies, const ConfigText& config, const gpt::Text& text);

  /// The validation before the first step.
  void CompareFirstValidation(float val_loss);
  /// Lets each make the same steps; their losses are compared.
  absl::Status RunBlock(std::span<const StepOutcome> mine);
  /// Of the emulated link of each; what was measured before no longer counts.
  absl::Status SetRate(double bytes_per_s);
  /// Why a run is known to differ; empty while none is.
  const std::string& difference() const { return difference_; }

  std::vector<PolicyReport> Report() const;

 private:
  struct Rival {
    std::string policy;
    ChildRun run;
    std::vector<double> seconds;  ///< of each step that counts
    std::vector<double> ratios;   ///< of each such block, its time over this run's
  };

  absl::Status RunBlock(std::span<const StepOutcome> mine, Rival* rival);

  std::vector<Rival> rivals_;
  int steps_ = 0;
  std::string difference_;
};

}  // namespace sluice::tools
