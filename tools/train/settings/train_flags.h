#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/support/arguments.h"
#include "tools/train/settings/train_settings.h"

namespace sluice::tools {

/// Flags of `sluice train`, parsed.
struct TrainFlags {
  TrainSettings settings;  ///< texts of --text replace those of the configuration
  std::string texts_name;  ///< source of the texts' names: "--text" or "train.texts"
  ConfigText config;       ///< configuration; its source is the path of --config
  bool verify = false;
  bool json = false;
  std::string record_path;  ///< path of --record; empty: none, as below
  std::string trace_path;
  std::string save_path;
  std::string save_state_path;  ///< directory of --save-state
  std::string resume_path;
  std::string init_path;  ///< file of weights of --init
  std::string state_path;
};

const std::vector<FlagSpec>& TrainFlagSpecs();

/// Reads the flags. Errors: InvalidArgument for flags and configuration; those of Config::Load.
absl::StatusOr<TrainFlags> ReadTrainFlags(std::span<const std::string> words);

/// Output of `sluice train --print-config`: every key of the configuration with its overrides. It
/// has all defaults without --config. Errors: those of ReadTrainFlags.
absl::StatusOr<std::string> WriteConfig(std::span<const std::string> words);

}  // namespace sluice::tools
