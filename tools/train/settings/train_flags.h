#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/support/arguments.h"
#include "tools/train/settings/train_settings.h"

namespace sluice::tools {

/// The words of `sluice train`, understood.
struct TrainFlags {
  TrainSettings settings;  ///< texts of --text replace those of the configuration
  std::string texts_name;  ///< where they are named: "--text" or "train.texts"
  ConfigText config;       ///< its source is the path of --config
  bool verify = false;
  bool json = false;
  std::string record_path;  ///< empty: none; likewise below
  std::string trace_path;
  std::string save_path;
  std::string save_state_path;  ///< directories
  std::string resume_path;
  std::string init_path;  ///< a file of weights
  std::string state_path;
};

const std::vector<FlagSpec>& TrainFlagSpecs();

/// Errors: InvalidArgument for flags and configuration; those of Config::Load.
absl::StatusOr<TrainFlags> ReadTrainFlags(std::span<const std::string> words);

/// What `sluice train --print-config` prints: the configuration with its overrides, every key.
/// Without --config all defaults. Errors: as ReadTrainFlags.
absl::StatusOr<std::string> WriteConfig(std::span<const std::string> words);

}  // namespace sluice::tools
