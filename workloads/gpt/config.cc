#include "workloads/gpt/config.h"

#include <array>
#include <string>

#include "fmt/format.h"

namespace sluice::gpt {
namespace {

struct Limit {
  const char* key;
  double value;
  double min;
  double max;
};

absl::Status CheckLimit(const Limit& limit) {
  if (limit.value >= limit.min && limit.value <= limit.max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {}, allowed are {} to {}", limit.key, limit.value, limit.min, limit.max));
}

// Products: each factor may be large, but a step holds all its tokens, and knows all its ops.
constexpr double kStepTokensMax = 1 << 24;
constexpr double kLayerGroupsMax = 1 << 14;
constexpr double kParametersMax = std::int64_t{1} << 36;

absl::Status CheckDivides(const char* part, int divisor, const char* whole, int value) {
  if (value % divisor == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {}, which does not divide {} = {}", part, divisor, whole, value));
}

}  // namespace

absl::StatusOr<OptimizerChoice> ParseOptimizer(std::string_view name) {
  if (name == "adamw") return OptimizerChoice::kAdamW;
  if (name == "none") return OptimizerChoice::kNone;
  return absl::InvalidArgumentError(
      fmt::format("\"train.optimizer\" is \"{}\"; allowed are \"adamw\" and \"none\"", name));
}

absl::StatusOr<StateType> ParseStates(std::string_view name) {
  for (const StateType type : {StateType::kFp32, StateType::kBf16, StateType::k8Bit}) {
    if (name == ToString(type)) return type;
  }
  return absl::InvalidArgumentError(
      fmt::format("\"train.states\" is \"{}\"; allowed are \"fp32\", \"bf16\", \"8bit\"", name));
}

absl::Status Check(const ModelConfig& model, const TrainConfig& train) {
  const std::array limits = {
      Limit{"model.layers", double(model.layers), 1, 1024},
      Limit{"model.heads", double(model.heads), 1, 1024},
      Limit{"model.width", double(model.width), 1, 65536},
      Limit{"model.context", double(model.context), 1, 65536},
      Limit{"model.vocab", double(model.vocab), 2, 256},
      Limit{"train.batch", double(train.batch), 1, 65536},
      Limit{"train.micro_batches", double(train.micro_batches), 1, 65536},
      Limit{"train.steps", double(train.steps), 1, 1e9},
      Limit{"train.learning_rate", train.learning_rate, 0, 10},
      Limit{"train.weight_decay", train.weight_decay, 0, 10},
      Limit{"train.beta1", train.beta1, 0, 0.999999},
      Limit{"train.beta2", train.beta2, 0, 0.999999},
      Limit{"train.eps", train.eps, 1e-30, 1},
      Limit{"train.clip_norm", train.clip_norm, 0, 1e30},
      Limit{"train.warmup_steps", double(train.warmup_steps), 0, 1e9},
      Limit{"train.group_sequences", double(train.group_sequences), 1, 65536},
      Limit{"train.val_every", double(train.val_every), 1, 1e9},
      Limit{"train.val_batches", double(train.val_batches), 1, 65536},
      Limit{"train.compute_threads", double(train.compute_threads), 1, 1024},
      Limit{"train.val_fraction", train.val_fraction, 0.001, 0.9},
      Limit{"train.batch x model.context",
            double(train.batch) * double(model.context),
            1,
            kStepTokensMax},
      Limit{"model.layers x train.micro_batches x train.batch / train.group_sequences",
            double(model.layers) * double(train.micro_batches) * double(train.batch) /
                double(train.group_sequences),
            0,
            kLayerGroupsMax},
      Limit{"the number of parameters", double(ParameterCount(model)), 1, kParametersMax},
  };
  for (const Limit& limit : limits) {
    if (absl::Status status = CheckLimit(limit); !status.ok()) return status;
  }
  absl::Status status = CheckDivides("model.heads", model.heads, "model.width", model.width);
  status.Update(
      CheckDivides("train.group_sequences", train.group_sequences, "train.batch", train.batch));
  return status;
}

std::int64_t ParameterCount(const ModelConfig& model) {
  const std::int64_t d = model.width;
  const std::int64_t layer = 12 * d * d + 13 * d;
  return model.layers * layer + (model.vocab + model.context) * d + 2 * d;
}

}  // namespace sluice::gpt
