#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/support/console.h"
#include "tools/train/settings/train_flags.h"
#include "tools/train/state/resume.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {

/// Source and target of a run's saves.
struct RunSaves {
  std::string note;  ///< description of the run, which its saves hold
  ResumableSaves resumable;
  std::unique_ptr<StateDirectory> directory;  ///< directory of --state; null: none
};

/// Opens --state. Prints the remains of a killed run, and a warning if the directory cannot be
/// locked. Returns null without --state. Errors: those of StateDirectory::Open.
absl::StatusOr<std::unique_ptr<StateDirectory>> OpenStateDirectory(const TrainFlags& flags,
                                                                   Console& console);

/// Prints the saves that were passed over, and the reasons.
void PrintPassedOver(const ResumableSaves& resumable, Console& console);

/// Whether `train.save_every` has a place to save to. Errors: InvalidArgument with the fix.
absl::Status CheckSavePlace(const TrainFlags& flags);

}  // namespace sluice::tools
