#include "tools/lab/validate/validate_report.h"

#include <cmath>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace sluice::tools {
namespace {

double Error(double predicted, double measured) {
  return measured > 0 ? predicted / measured - 1 : 0;
}

}  // namespace

double StepError(const ValidatedRun& run) {
  return Error(run.predicted_step_s, run.measured_step_s);
}

double StallError(const ValidatedRun& run) {
  return Error(run.predicted_stall_s, run.measured_stall_s);
}

bool StallCounts(const ValidatedRun& run) {
  return run.measured_stall_s > kStallShareMin * run.measured_step_s;
}

bool IsWithin(const ValidatedRun& run) {
  if (std::abs(StepError(run)) > kStepErrorMax) return false;
  return !StallCounts(run) || std::abs(StallError(run)) <= kStallErrorMax;
}

std::string ValidateHeadText() {
  return fmt::format("{:>7} {:>10} {:>10} {:>6} {:>21} {:>8} {:>21} {:>8}\n",
                     "budgets",
                     "hbm",
                     "dram",
                     "steps",
                     "step ms, predicted",
                     "error",
                     "stall ms, predicted",
                     "error");
}

std::string ToText(const ValidatedRun& run) {
  const std::string stall_error =
      StallCounts(run) ? fmt::format("{:+.1f} %", 100 * StallError(run)) : "(small)";
  return fmt::format(
      "{:>5} % {:>10} {:>10} {:>6} {:>10.1f} {:>10.1f} {:>+6.1f} % {:>10.1f} "
      "{:>10.1f} {:>8}{}\n",
      run.percent,
      ToString(run.hbm),
      ToString(run.dram),
      run.steps,
      run.measured_step_s * 1e3,
      run.predicted_step_s * 1e3,
      100 * StepError(run),
      run.measured_stall_s * 1e3,
      run.predicted_stall_s * 1e3,
      stall_error,
      IsWithin(run) ? "" : "  MISSES");
}

std::string ToJsonLine(const ValidatedRun& run) {
  const nlohmann::ordered_json object = {{"percent", run.percent},
                                         {"hbm_bytes", run.hbm.count()},
                                         {"dram_bytes", run.dram.count()},
                                         {"policy", run.policy},
                                         {"key", run.key},
                                         {"steps", run.steps},
                                         {"measured_step_s", run.measured_step_s},
                                         {"predicted_step_s", run.predicted_step_s},
                                         {"step_error", StepError(run)},
                                         {"measured_stall_s", run.measured_stall_s},
                                         {"predicted_stall_s", run.predicted_stall_s},
                                         {"stall_error", StallError(run)},
                                         {"stall_counts", StallCounts(run)},
                                         {"within", IsWithin(run)}};
  return object.dump() + "\n";
}

}  // namespace sluice::tools
