#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/step/memory_rates.h"
#include "bench/step/peak_memory.h"
#include "bench/step/step_bench.h"
#include "bench/step/step_case.h"
#include "bench/step/step_model.h"
#include "bench/store/judged_case.h"
#include "bench/store/load.h"
#include "bench/store/row.h"
#include "bench/store/session.h"

namespace sluice::bench {

/// Seconds of the floor of one step, from rates in bytes per second.
double FloorSeconds(const StepCase& which,
                    std::uint64_t parameters,
                    double disk_rate,
                    double memory_rate);

/// Parts that all cases of a benchmark share.
struct StepSetting {
  const StepBenchOptions& options;
  const StoreSession& session;  ///< holder of fio's files
  Load disk;                    ///< load that fio makes
};

/// A case with all parts that it runs on. A round is floor, step, floor.
class StepRun {
 public:
  /// Makes the model (and that of the fp32 step, where this is the floor) and takes the steps that
  /// the runtime records and plans after. Errors: of StepModel.
  static absl::StatusOr<std::unique_ptr<StepRun>> Create(const StepSetting& setting,
                                                         const StepCase& which);

  /// Errors: of fio and of the steps.
  absl::Status RunRound();
  /// REQUIRES: a round.
  Row MakeRow() const;
  /// Difference of the model, as StepModel::Difference says.
  absl::StatusOr<std::string> Difference() { return model_->Difference(); }

 private:
  StepRun(const StepSetting& setting, const StepCase& which)
      : setting_(setting), parameters_(setting.options.parameters), which_(which) {}
  absl::Status MakeModels();
  /// Giga-parameters per second of the floor, now.
  absl::StatusOr<double> RunFloor();
  absl::StatusOr<double> RunOwnFp32();
  absl::Status RunOurs(double* rate);
  double Rate(double seconds) const;
  /// Whether the kernel alone takes longer than is asked for beside our own fp32 step.
  bool KernelBinds() const;
  StepFigures Figures(const Row& row) const;

  const StepSetting setting_;
  const std::uint64_t parameters_;
  const StepCase which_;
  std::unique_ptr<MemoryRates> memory_;  ///< none where only the disk counts
  std::unique_ptr<StepModel> own_fp32_;  ///< model of the fp32 step; null where that is no floor
  std::optional<PeakMemory> peak_;       ///< peak since the creation of `model_`
  std::unique_ptr<StepModel> model_;
  std::optional<double> floor_before_;  ///< seconds of our own fp32 step; one run serves two rounds
  std::vector<Round> rounds_;
  std::vector<Round> kernel_rounds_;  ///< rounds against the kernel alone
  std::vector<StepSample> samples_;
};

}  // namespace sluice::bench
