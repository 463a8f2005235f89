#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/optimizer.h"
#include "workloads/gpt/training/recompute.h"

namespace sluice::gpt {

/// Shape of the model: a pre-norm decoder over bytes with a tied output head.
struct ModelConfig {
  int layers = 8;
  int heads = 6;
  int width = 384;  ///< width of the residual stream, a multiple of heads
  int context = 256;
  int vocab = 256;
};

enum class OptimizerChoice : std::uint8_t {
  kAdamW,
  kNone,  ///< no optimizer: parameters stay as they are, to time a step without its update
};

/// Parses a choice by its name in a configuration. Errors: InvalidArgument that names the allowed
/// ones.
absl::StatusOr<OptimizerChoice> ParseOptimizer(std::string_view name);

/// Parses a type by its name in a configuration. Errors: InvalidArgument that names the allowed
/// ones.
absl::StatusOr<StateType> ParseStates(std::string_view name);

/// Largest value of TrainConfig::compute_threads.
inline constexpr int kComputeThreadsMax = 1024;

struct TrainConfig {
  int batch = 8;          ///< sequences per micro-batch
  int micro_batches = 1;  ///< micro-batches per step, whose gradients are added up
  OptimizerChoice optimizer = OptimizerChoice::kAdamW;
  StateType states = StateType::kFp32;  ///< type of the optimizer's states
  int steps = 30;
  double learning_rate = 1e-3;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double clip_norm = 1.0;  ///< largest norm of gradients; 0: no clipping
  int warmup_steps = 5;
  /// Number of sequences per op. It divides batch.
  int group_sequences = 2;
  std::uint64_t seed = 1;
  int val_every = 10;
  int val_batches = 2;
  int compute_threads = 1;
  double val_fraction = 0.1;
  Recompute recompute = Recompute::kNone;
};

struct Range {
  double min = 0;
  double max = 0;
};
/// Values that Check allows for a key, as "model.layers". None: the key is not checked.
std::optional<Range> RangeOf(std::string_view key);

/// Checks both configurations. Errors: InvalidArgument that names the key and the allowed values.
absl::Status Check(const ModelConfig& model, const TrainConfig& train);

/// Number of all parameters of the model.
std::int64_t ParameterCount(const ModelConfig& model);

}  // namespace sluice::gpt
