#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/support/console.h"
#include "tools/train/settings/train_flags.h"

namespace sluice::tools {

/// Flags of `sluice lab validate`.
struct ValidateFlags {
  TrainFlags train;           ///< training with the whole budgets
  std::vector<int> percents;  ///< shares of hbm and dram, in the order given
  Console::Mode mode = Console::Mode::kText;
};

/// Reads the flags. Errors: InvalidArgument that names the flag and the fix; those of
/// ReadTrainFlags.
absl::StatusOr<ValidateFlags> ReadValidateFlags(std::span<const std::string> words);
std::string ValidateHelpText();

/// `train` with `percent` of its hbm and dram, in whole pages.
TrainFlags WithBudgets(const TrainFlags& train, int percent);

}  // namespace sluice::tools
