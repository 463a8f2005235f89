#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/support/console.h"
#include "tools/train/settings/train_flags.h"
#include "tools/train/state/resume.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {

/// Where a run's saves come from and go to.
struct RunState {
  std::string note;  ///< description of the run, which its saves hold
  ResumePlan plan;
  std::unique_ptr<StateDirectory> directory;  ///< directory of --state; null: none
};

/// Opens --state, and says what a killed run left there and whether it cannot be locked. Null
/// without --state. Errors: those of StateDirectory::Open.
absl::StatusOr<std::unique_ptr<StateDirectory>> OpenStateDirectory(const TrainFlags& flags,
                                                                   Console& console);

/// Says which saves were passed over, and why.
void PrintPassedOver(const ResumePlan& plan, Console& console);

/// Whether `train.save_every` has a place to save to. Errors: InvalidArgument with the fix.
absl::Status CheckSavePlace(const TrainFlags& flags);

}  // namespace sluice::tools
