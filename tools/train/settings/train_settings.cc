#include "tools/train/settings/train_settings.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/status.h"
#include "base/thread.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

/// A number that an int holds, and gpt::Check allows.
absl::Status ReadInt(Config& config, std::string_view key, int* value) {
  std::int64_t number = *value;
  SLUICE_RETURN_IF_ERROR(config.Read(key, &number));
  constexpr gpt::Range kAny{0, std::numeric_limits<int>::max()};
  const gpt::Range range = gpt::RangeOf(key).value_or(kAny);
  if (static_cast<double>(number) < range.min || static_cast<double>(number) > range.max) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is {}; allowed are {} to {}", key, number, range.min, range.max));
  }
  *value = static_cast<int>(number);
  return absl::OkStatus();
}

absl::Status ReadLoad(Config& config, double* load) {
  constexpr double kLoadMax = 10;
  SLUICE_RETURN_IF_ERROR(config.Read("device.emulated.load", load));
  if (*load >= 0 && *load <= kLoadMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("\"device.emulated.load\" is {}; allowed are 0 to {}", *load, kLoadMax));
}

absl::Status ReadModel(Config& config, gpt::ModelConfig* model) {
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "model.layers", &model->layers));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "model.heads", &model->heads));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "model.width", &model->width));
  return ReadInt(config, "model.context", &model->context);
}

absl::Status ReadOptimizer(Config& config, gpt::TrainConfig* train) {
  std::string name = "adamw";
  SLUICE_RETURN_IF_ERROR(config.Read("train.optimizer", &name));
  SLUICE_ASSIGN_OR_RETURN(train->optimizer, gpt::ParseOptimizer(name));
  std::string states(ToString(train->states));
  SLUICE_RETURN_IF_ERROR(config.Read("train.states", &states));
  SLUICE_ASSIGN_OR_RETURN(train->states, gpt::ParseStates(states));
  SLUICE_RETURN_IF_ERROR(config.Read("train.learning_rate", &train->learning_rate));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.warmup_steps", &train->warmup_steps));
  SLUICE_RETURN_IF_ERROR(config.Read("train.weight_decay", &train->weight_decay));
  SLUICE_RETURN_IF_ERROR(config.Read("train.beta1", &train->beta1));
  SLUICE_RETURN_IF_ERROR(config.Read("train.beta2", &train->beta2));
  SLUICE_RETURN_IF_ERROR(config.Read("train.eps", &train->eps));
  return config.Read("train.clip_norm", &train->clip_norm);
}

absl::Status ReadSaveEvery(Config& config, SaveInterval* interval) {
  std::string text;
  SLUICE_RETURN_IF_ERROR(config.Read("train.save_every", &text));
  SLUICE_ASSIGN_OR_RETURN(*interval, ParseSaveInterval(text));
  return absl::OkStatus();
}

absl::Status ReadRecompute(Config& config, gpt::Recompute* recompute) {
  std::string name = "none";
  SLUICE_RETURN_IF_ERROR(config.Read("train.recompute", &name));
  SLUICE_ASSIGN_OR_RETURN(*recompute, gpt::ParseRecompute(name));
  return absl::OkStatus();
}

absl::Status ReadLoop(Config& config, gpt::TrainConfig* train) {
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.steps", &train->steps));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.batch", &train->batch));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.micro_batches", &train->micro_batches));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.group_sequences", &train->group_sequences));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.compute_threads", &train->compute_threads));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.val_every", &train->val_every));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.val_batches", &train->val_batches));
  SLUICE_RETURN_IF_ERROR(config.Read("train.val_fraction", &train->val_fraction));
  SLUICE_RETURN_IF_ERROR(ReadRecompute(config, &train->recompute));
  auto seed = static_cast<std::int64_t>(train->seed);
  SLUICE_RETURN_IF_ERROR(config.Read("train.seed", &seed));
  if (seed < 0) {
    return absl::InvalidArgumentError(
        fmt::format("\"train.seed\" is {}; allowed are 0 to {}", seed, INT64_MAX));
  }
  train->seed = static_cast<std::uint64_t>(seed);
  return absl::OkStatus();
}

absl::Status CheckDevice(RuntimeOptions* runtime) {
  runtime->cuda.why_none = "train computes on the CPU";
  if (runtime->device != DeviceKind::kCuda) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "\"device.kind\" is that of a GPU, and train computes on the CPU: device.kind = "
      "\"emulated\"");
}

absl::StatusOr<Config> Parse(const ConfigText& config) {
  SLUICE_ASSIGN_OR_RETURN(Config parsed, Config::Parse(config.text, config.source));
  for (const std::string& assignment : config.assignments) {
    SLUICE_RETURN_IF_ERROR(parsed.Set(assignment));
  }
  return parsed;
}

}  // namespace

absl::StatusOr<TrainSettings> ReadTrainSettings(const ConfigText& config) {
  SLUICE_ASSIGN_OR_RETURN(Config parsed, Parse(config));
  return ReadTrainSettings(parsed);
}

absl::StatusOr<std::string> WriteTrainSettings(const ConfigText& config) {
  SLUICE_ASSIGN_OR_RETURN(Config parsed, Parse(config));
  SLUICE_RETURN_IF_ERROR(ReadTrainSettings(parsed).status());
  return parsed.Values();
}

absl::StatusOr<TrainSettings> ReadTrainSettings(Config& config) {
  TrainSettings settings;
  settings.train.compute_threads = std::min(base::AllowedCpuCount(), gpt::kComputeThreadsMax);
  SLUICE_RETURN_IF_ERROR(ReadModel(config, &settings.model));
  SLUICE_RETURN_IF_ERROR(ReadOptimizer(config, &settings.train));
  SLUICE_RETURN_IF_ERROR(ReadLoop(config, &settings.train));
  SLUICE_RETURN_IF_ERROR(ReadInt(config, "train.not_finite_steps", &settings.not_finite_steps));
  SLUICE_RETURN_IF_ERROR(ReadSaveEvery(config, &settings.save_every));
  SLUICE_RETURN_IF_ERROR(config.Read("train.texts", &settings.texts));
  SLUICE_RETURN_IF_ERROR(ReadLoad(config, &settings.emulated_load));
  SLUICE_ASSIGN_OR_RETURN(settings.runtime, ReadRuntimeOptions(config));
  SLUICE_RETURN_IF_ERROR(CheckDevice(&settings.runtime));
  SLUICE_RETURN_IF_ERROR(config.Finish());
  SLUICE_RETURN_IF_ERROR(gpt::Check(settings.model, settings.train));
  return settings;
}

}  // namespace sluice::tools
