#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/train/settings/train_settings.h"

namespace sluice::tools {

/// What makes a run that goes on the same run: model, data, seed, types. As the note of a save.
std::string DescribeRun(const TrainSettings& settings, const std::string& text_hash);

/// How many steps the save in `directory` has, of a run that may go on with these settings. Errors:
/// those of OffloadedOptimizer::ReadSave, InvalidArgument (no save of a training run; another
/// run's: names each key, both values and how to set it; all steps are done).
absl::StatusOr<int> CheckSavedRun(const std::string& directory,
                                  const TrainSettings& settings,
                                  const std::string& text_hash);

}  // namespace sluice::tools
