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

/// Facts of a training run that the simulator is told.
struct TrainedRun {
  RunReport report;
  Schedule schedule;  ///< newest recording of the main key
  OpTimes op_times;   ///< op times of the judged steps
  std::map<std::string, LinkRates> rates;
};

/// Trains with the flags. Errors: those of the run; Cancelled after a signal.
absl::StatusOr<TrainedRun> Train(const TrainFlags& flags,
                                 const gpt::Dataset& data,
                                 const InterruptWatch& watch);

/// Simulates the training. Each op takes the median of its times. All times are scaled: ops and the
/// gaps between them add up to the median of the time that a step did not wait. Errors:
/// FailedPrecondition (no step to compare with); those of the simulator.
absl::StatusOr<ValidatedRun> Compare(const TrainedRun& run, const TrainSettings& settings);

}  // namespace sluice::tools
