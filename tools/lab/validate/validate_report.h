#pragma once

#include <string>

#include "sluice/units.h"

namespace sluice::tools {

/// Results of one run in `sluice lab validate`: its seconds, and those that the simulator gives for
/// its recorded schedule. All are seconds of a usual step.
struct ValidatedRun {
  int percent = 100;  ///< share of the configured hbm and dram
  Bytes hbm;
  Bytes dram;
  std::string policy;
  std::string key;
  int steps = 0;  ///< measured steps
  double measured_step_s = 0;
  double measured_stall_s = 0;
  double predicted_step_s = 0;
  double predicted_stall_s = 0;
};

/// Largest errors of true predictions, of a step and of its stall. Then the share of a step below
/// which waiting does not matter.
inline constexpr double kStepErrorMax = 0.10;
inline constexpr double kStallErrorMax = 0.20;
inline constexpr double kStallShareMin = 0.05;

/// predicted / measured - 1; 0 when there is nothing to predict.
double StepError(const ValidatedRun& run);
double StallError(const ValidatedRun& run);
/// Whether waiting is enough of the measured step for its error to count.
bool StallCounts(const ValidatedRun& run);
/// Whether the prediction is within its limits.
bool IsWithin(const ValidatedRun& run);

std::string ValidateHeadText();
std::string ToText(const ValidatedRun& run);
/// The run as one JSON object, on one line, with a newline.
std::string ToJsonLine(const ValidatedRun& run);

}  // namespace sluice::tools
