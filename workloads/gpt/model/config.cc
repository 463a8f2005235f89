#include "workloads/gpt/model/config.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"

namespace sluice::gpt {
namespace {

struct Limit {
  const char* name;
  double value;
  double min;
  double max;
};

/// `quote`: around the name of a key.
absl::Status CheckLimits(std::span<const Limit> limits, std::string_view quote) {
  for (const Limit& limit : limits) {
    if (limit.value >= limit.min && limit.value <= limit.max) continue;
    return absl::InvalidArgumentError(fmt::format("{}{}{} is {}; allowed are {} to {}",
                                                  quote,
                                                  limit.name,
                                                  quote,
                                                  limit.value,
                                                  limit.min,
                                                  limit.max));
  }
  return absl::OkStatus();
}

// Products: each factor may be large, but a step holds all its tokens, and knows all its ops.
constexpr double kStepTokensMax = 1 << 24;
constexpr double kLayerGroupsMax = 1 << 14;
constexpr double kParametersMax = std::int64_t{1} << 36;

std::array<Limit, 5> LimitsOf(const ModelConfig& model) {
  return {{{"model.layers", double(model.layers), 1, 1024},
           {"model.heads", double(model.heads), 1, 1024},
           {"model.width", double(model.width), 1, 65536},
           {"model.context", double(model.context), 1, 65536},
           {"model.vocab", double(model.vocab), 2, 256}}};
}

std::array<Limit, 15> LimitsOf(const TrainConfig& train) {
  return {{{"train.batch", double(train.batch), 1, 65536},
           {"train.micro_batches", double(train.micro_batches), 1, 65536},
           {"train.steps", double(train.steps), 1, 1e9},
           {"train.learning_rate", train.learning_rate, 0, 1},
           {"train.weight_decay", train.weight_decay, 0, 1},
           {"train.beta1", train.beta1, 0, 0.999999},
           {"train.beta2", train.beta2, 0, 0.999999},
           {"train.eps", train.eps, 1e-30, 1},
           {"train.clip_norm", train.clip_norm, 0, 1e30},
           {"train.warmup_steps", double(train.warmup_steps), 0, 1e9},
           {"train.group_sequences", double(train.group_sequences), 1, 65536},
           {"train.val_every", double(train.val_every), 1, 1e9},
           {"train.val_batches", double(train.val_batches), 1, 65536},
           {"train.compute_threads", double(train.compute_threads), 1, kComputeThreadsMax},
           {"train.val_fraction", train.val_fraction, 0.001, 0.5}}};
}

std::array<Limit, 3> LimitsOfProducts(const ModelConfig& model, const TrainConfig& train) {
  const double sequences = double(train.micro_batches) * double(train.batch);
  return {{{"train.batch x model.context",
            double(train.batch) * double(model.context),
            1,
            kStepTokensMax},
           {"model.layers x train.micro_batches x train.batch / train.group_sequences",
            double(model.layers) * sequences / double(train.group_sequences),
            0,
            kLayerGroupsMax},
           {"the number of parameters", double(ParameterCount(model)), 1, kParametersMax}}};
}

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

std::optional<Range> RangeOf(std::string_view key) {
  const auto of_model = LimitsOf(ModelConfig());
  const auto of_train = LimitsOf(TrainConfig());
  std::vector<Limit> limits(of_model.begin(), of_model.end());
  limits.insert(limits.end(), of_train.begin(), of_train.end());
  for (const Limit& limit : limits) {
    if (limit.name == key) return Range{limit.min, limit.max};
  }
  return std::nullopt;
}

absl::Status Check(const ModelConfig& model, const TrainConfig& train) {
  absl::Status status = CheckLimits(LimitsOf(model), "\"");
  status.Update(CheckLimits(LimitsOf(train), "\""));
  status.Update(CheckLimits(LimitsOfProducts(model, train), ""));
  if (!status.ok()) return status;
  status = CheckDivides("model.heads", model.heads, "model.width", model.width);
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
