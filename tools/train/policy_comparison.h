#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/child_run.h"
#include "tools/train/policy_score.h"
#include "tools/train/run_report.h"
#include "tools/train/steps.h"

namespace sluice::tools {

/// The same training under other policies, in turn with this one block by block: so what the
/// machine does meanwhile meets all alike. A run that fails is left out from then on, and says why;
/// the others go on. Threads: externally synchronised.
class PolicyComparison {
 public:
  /// One run per policy. Errors: as of ChildRun::Start, by policy.
  static absl::StatusOr<std::unique_ptr<PolicyComparison>> Start(
      std::span<const std::string> policies, const ConfigText& config, const gpt::Text& text);

  /// The validation before the first step.
  void CompareFirstValidation(float val_loss);
  /// Lets each make the same steps, until `stop` is true; their losses are compared. Every other
  /// time the last begins.
  void RunBlock(std::span<const StepOutcome> mine, const std::function<bool()>& stop);
  /// Of the emulated link of each; what was measured before no longer counts.
  void SetRate(double bytes_per_s);
  /// The losses of one differ.
  bool Differs() const;

  std::vector<PolicyReport> Report() const;

 private:
  struct Rival {
    PolicyScore score;
    std::optional<ChildRun> run;  ///< none once it has failed
    std::string failure;
  };

  static void Note(const absl::Status& status, Rival* rival);
  static void RunBlock(std::span<const StepOutcome> mine, Rival* rival);

  std::vector<Rival> rivals_;
  bool backwards_ = false;
};

}  // namespace sluice::tools
