#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/report/run_report.h"
#include "tools/train/run/ram_run.h"
#include "tools/train/run/steps.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::tools {

/// Holds a training run against the same run in RAM: block by block, then state by state.
/// Threads: externally synchronised.
class Verifier {
 public:
  /// Starts the run in RAM: see RamRun::Start, for `stop` here and below, too.
  static absl::StatusOr<std::unique_ptr<Verifier>> Start(const ConfigText& config,
                                                         const gpt::Text& text,
                                                         const std::string& init_path,
                                                         const gpt::StopFn& stop);

  /// Compares the validation before the first step.
  void CompareFirstValidation(float val_loss);
  /// Lets the run in RAM make the same steps, and compares their losses. Returns the median seconds
  /// of a step.
  absl::StatusOr<double> RunBlock(std::span<const StepOutcome> paged, const gpt::StopFn& stop);
  /// Forgets the block ratios so far.
  void ForgetRatios() { ratios_.clear(); }
  /// Seconds of the fastest step in RAM so far, without its updates; none before the first step.
  std::optional<double> least_ram_seconds() const { return least_ram_seconds_; }
  /// Difference of the runs, as far as it is known; empty: none.
  const std::string& difference() const { return difference_; }

  /// Compares the states.
  absl::StatusOr<VerifyReport> Finish(gpt::Trainer& trainer, const gpt::StopFn& stop);

 private:
  explicit Verifier(RamRun ram) : ram_(std::move(ram)) {}

  RamRun ram_;
  int steps_ = 0;
  std::vector<double> ram_seconds_;
  std::optional<double> least_ram_seconds_;
  std::vector<double> ratios_;
  std::string difference_;
};

}  // namespace sluice::tools
