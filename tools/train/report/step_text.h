#pragma once

#include <optional>
#include <string>

#include "tools/train/report/run_report.h"

namespace sluice::tools {

/// The text of one step, with a newline: "step    3/30  loss 2.5635  2251.0 ms  stall 12.3 ms ...".
/// Each part is whole, and no line has more than kColumns columns. `val_loss`: loss of the
/// validation that followed the step, if one did.
std::string FormatStep(const StepRecord& step, int steps, std::optional<float> val_loss);

}  // namespace sluice::tools
