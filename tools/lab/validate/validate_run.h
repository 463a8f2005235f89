#pragma once

#include "absl/status/statusor.h"
#include "sluice/schedule.h"
#include "tools/lab/validate/validate_report.h"
#include "tools/support/console.h"
#include "tools/support/interrupt.h"
#include "tools/train/report/op_times.h"
#include "tools/train/report/run_report.h"
#include "tools/train/settings/train_flags.h"
#include "workloads/gpt/model/dataset.h"

namespace sluice::tools {

/// A training run, as far as the simulator is told of it.
struct TrainedRun {
  RunReport report;
  Schedule schedule;  ///< newest recording of the main key
  OpTimes op_times;   ///< op times of the judged steps
  std::map<std::string, LinkRates> rates;
};

/// Trains. Errors: those of the run; Cancelled after a signal.
absl::StatusOr<TrainedRun> Train(const TrainFlags& flags,
                                 const gpt::Dataset& data,
                                 const InterruptWatch& watch);

/// Simulates what was trained. Each op takes the median of its times, and all are scaled so that
/// they and what lies between them add up to the median of what a step did not wait. Errors:
/// FailedPrecondition (no step to compare with); those of the simulator.
absl::StatusOr<ValidatedRun> Compare(const TrainedRun& run, const TrainSettings& settings);

}  // namespace sluice::tools
