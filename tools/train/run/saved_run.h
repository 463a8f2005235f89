#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/train/settings/train_settings.h"

namespace sluice::tools {

/// Description of a run, as the note of a save: model, data, seed and types, which are the same in
/// a run that goes on.
std::string DescribeRun(const TrainSettings& settings, const std::string& text_hash);

/// The save of a run that may go on.
struct SavedRun {
  int step = 0;
  /// Settings that differ from the save's, so that the run goes on otherwise, as a sentence; empty:
  /// none.
  std::string differences;
};

/// The description of the save in `directory`, if a run with these settings may go on from it.
/// Errors:
/// - those of OffloadedOptimizer::ReadSave
/// - InvalidArgument: no save of a training run
/// - InvalidArgument: a save that cannot be loaded here. The message names each key, both values
///   and how to set it, or how to begin anew, which is `begin_anew`.
absl::StatusOr<SavedRun> CheckSavedRun(const std::string& directory,
                                       const TrainSettings& settings,
                                       const std::string& text_hash,
                                       std::string_view begin_anew);

}  // namespace sluice::tools
