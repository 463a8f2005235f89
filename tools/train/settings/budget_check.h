#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/units.h"
#include "tools/train/settings/train_settings.h"

namespace sluice::tools {

/// The smallest budget with which a tier takes the whole run, and its cause.
struct LeastBudget {
  Bytes bytes;
  std::string reason;
};

struct LeastBudgets {
  LeastBudget hbm;
  LeastBudget dram;
  LeastBudget nvme;
};

/// Finds the least budgets from the model's ops and tensors, without computing anything. Errors:
/// InvalidArgument (the model).
absl::StatusOr<LeastBudgets> FindLeastBudgets(const TrainSettings& settings);

/// Whether the budgets suffice, so that too small ones are found before the work, all at once.
/// Errors: ResourceExhausted that names each such tier, its budget and the smallest that would do;
/// those of FindLeastBudgets; InvalidArgument (a budget too large to count).
absl::Status CheckBudgets(const TrainSettings& settings);

}  // namespace sluice::tools
