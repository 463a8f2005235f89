#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/units.h"
#include "tools/train/settings/train_settings.h"

namespace sluice::tools {

/// The smallest budget with which a tier takes the whole run, and what asks for it.
struct LeastBudget {
  Bytes bytes;
  std::string reason;
};

struct LeastBudgets {
  LeastBudget hbm;
  LeastBudget dram;
  LeastBudget nvme;
};

/// Found from the model's ops and tensors, without computing anything. Errors: InvalidArgument (the
/// model).
absl::StatusOr<LeastBudgets> FindLeastBudgets(const TrainSettings& settings);

/// So that budgets that are too small are found before the work, all at once. Errors:
/// ResourceExhausted that names each such tier, its budget and the smallest that would do; as
/// FindLeastBudgets, and InvalidArgument (a budget too large to count).
absl::Status CheckBudgets(const TrainSettings& settings);

}  // namespace sluice::tools
