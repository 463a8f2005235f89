#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/config.h"
#include "sluice/options.h"
#include "tools/train/state/save_interval.h"
#include "workloads/gpt/model/config.h"

namespace sluice::tools {

/// A whole configuration of the train command.
struct TrainSettings {
  gpt::ModelConfig model;  ///< values of the keys model.*
  gpt::TrainConfig train;  ///< values of the keys train.*
  /// Files to train on; none: the project's own sources and documents.
  std::vector<std::string> texts;
  /// device.emulated.load: the emulated link's bound as a share of the RAM step. 0 leaves the link
  /// unpaced.
  double emulated_load = 0;
  /// train.not_finite_steps: steps in a row without a finite loss that end the run; 0: none do.
  int not_finite_steps = 3;
  /// train.save_every: saves on the way, into --state or --save-state.
  SaveInterval save_every;
  RuntimeOptions runtime;
};

/// A configuration as it was given. The run in RAM is made of it, too.
struct ConfigText {
  std::string text;
  std::string source;                    ///< name of the configuration in messages
  std::vector<std::string> assignments;  ///< values of --set, in order
};

/// Reads the settings. Errors: those of Config, and of the other ReadTrainSettings.
absl::StatusOr<TrainSettings> ReadTrainSettings(const ConfigText& config);

/// Every key with its value, as a TOML file that ReadTrainSettings reads to the same settings.
/// Errors: those of ReadTrainSettings.
absl::StatusOr<std::string> WriteTrainSettings(const ConfigText& config);

/// Reads all keys and refuses any other. Errors: InvalidArgument that names key, value and the
/// allowed ones.
absl::StatusOr<TrainSettings> ReadTrainSettings(Config& config);

}  // namespace sluice::tools
