#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/train/settings/train_settings.h"

namespace sluice::tools {

/// What makes a run that goes on the same run: model, data, seed, types. As the note of a save.
std::string DescribeRun(const TrainSettings& settings, const std::string& text_hash);

/// The save of a run that may go on.
struct SavedRun {
  int step = 0;
  /// What is not as in the save, so that the run goes on otherwise, as a sentence; empty: nothing.
  std::string differences;
};

/// What the save in `directory` says of itself, and whether a run with these settings may go on
/// from it. Errors: those of OffloadedOptimizer::ReadSave, InvalidArgument (no save of a training
/// run; one that cannot be loaded here: names each key, both values and how to set it, or how to
/// begin anew, which is `begin_anew`).
absl::StatusOr<SavedRun> CheckSavedRun(const std::string& directory,
                                       const TrainSettings& settings,
                                       const std::string& text_hash,
                                       std::string_view begin_anew);

}  // namespace sluice::tools
