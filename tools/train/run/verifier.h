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
  /// See RamRun::Start, for `stop` here and below, too.
  static absl::StatusOr<std::unique_ptr<Verifier>> Start(const ConfigText& config,
                                                         const gpt::Text& text,
                                                         const std::string& init_path,
                                                         const gpt::StopFn& stop);

  /// The validation before the first step.
  void CompareFirstValidation(float val_loss);
  /// Lets the run in RAM make the same steps; their losses are compared. Median seconds of a step.
  absl::StatusOr<double> RunBlock(std::span<const StepOutcome> paged, const gpt::StopFn& stop);
  /// Block ratios so far no longer count.
  void ForgetRatios() { ratios_.clear(); }
  /// Of the fastest step in RAM so far, its updates left out; none before the first.
  std::optional<double> least_ram_seconds() const { return least_ram_seconds_; }
  /// Why the runs are known to differ; empty while they are not.
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
