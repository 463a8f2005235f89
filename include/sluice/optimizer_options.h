#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/tensor.h"
#include "sluice/tier.h"

/// Options, groups, bindings and steps, as an OffloadedOptimizer (sluice/optimizer.h) takes them:
///
///   sluice::OptimizerOptions options;
///   options.kind = sluice::OptimizerKind::kAdamW;
///   options.state = sluice::StateType::kBf16;
///   options.clip_norm = 1;
///   auto optimizer = sluice::OffloadedOptimizer::Create(*runtime, options);
///   auto group = (*optimizer)->AddGroup({.name = "all", .parameters = {weights}});

namespace sluice {

/// Formula of an update (docs/optimizer-kernels.md).
enum class OptimizerKind : std::uint8_t {
  kAdam,      ///< weight decay is part of the gradient
  kAdamW,     ///< weight decay acts on the parameter
  kSgd,       ///< momentum
  kNesterov,  ///< SGD with Nesterov momentum
  kLion,
  kAdagrad
};
/// Type of the optimizer's states.
enum class StateType : std::uint8_t { kFp32, kBf16, k8Bit };  ///< bf16: rounded stochastically

/// "adamw"; "fp32", "bf16", "8bit".
std::string_view ToString(OptimizerKind kind);
std::string_view ToString(StateType type);

/// The order in which a step goes through the parameters.
enum class SweepOrder : std::uint8_t {
  /// Forwards in one step, backwards in the next: pages that one leaves in dram are used first in
  /// the other. Best for a program that waits for the whole step.
  kAlternate,
  /// The order of AddGroup in every step: best for a forward that follows and waits group by group.
  kForward
};

/// Options of an optimizer, which hold for all of its groups. OffloadedOptimizer::Create checks
/// them, and its InvalidArgument names the wrong one.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  /// Type of all optimizer states.
  StateType state = StateType::kFp32;
  /// Lowest tiers that states, and accumulated gradients, may reach: kDram or kNvme.
  TierKind lowest = TierKind::kNvme;
  TierKind accumulator_lowest = TierKind::kDram;
  /// Type of accumulated gradients, kF32 or kBF16. Micro-batches are added up in dram in that type
  /// (bf16: each sum rounded to nearest). None: a step uses the bound gradients as they are.
  std::optional<DType> accumulate = std::nullopt;
  /// Largest global norm of the gradients, unscaled; larger ones are scaled down. 0: no clipping.
  double clip_norm = 0;
  /// A step whose gradient norm is infinite or NaN changes nothing. The norm that the optimizer
  /// finds is finite exactly where every gradient is.
  bool skip_not_finite = false;
  /// The caller knows the norm and gives it to every Step: of all ranks, say, or summed up as the
  /// gradients were made. The optimizer reads no gradients for it then. Needs clip_norm or
  /// skip_not_finite.
  bool norm_given = false;
  /// Seed of stochastic rounding.
  std::uint64_t seed = 0;
  SweepOrder order = SweepOrder::kAlternate;
  /// Threads that compute, the optimizer's own included, 1 to 256. The number changes no bit.
  int threads = 1;
  /// Updates whose pages are asked for ahead of the one that computes, at most 4096; 0: as many as
  /// the measured latency of reads needs.
  std::uint32_t depth = 0;
  /// Lane of the optimizer's ops, not empty.
  std::string lane = "optimizer";
};

/// Rates that may change from step to step. beta1 is SGD's momentum. An optimizer ignores the rates
/// that it does not use (docs/optimizer-kernels.md). Ranges: beta1 and beta2 in [0, 1), the others
/// in [0, 1e30).
struct GroupRates {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

/// A group: parameters whose gradients are complete at the same time, and their rates.
struct GroupOptions {
  /// Name of the group, unique in its optimizer.
  std::string name = {};
  /// fp32 or bf16 tensors of the Runtime, which outlive the optimizer, and ids of BindParameter.
  /// bf16 ones are rounded stochastically.
  std::vector<TensorId> parameters = {};
  GroupRates rates = {};
  /// Number of the first parameter; the others follow. It decides stochastic roundings. None: the
  /// number of those added before. A rank that adds fewer parameters than another one gives it.
  /// Parameters that both have stay equal then.
  std::optional<std::uint64_t> first_number = std::nullopt;
};

/// Number of a group in its optimizer, counted from 0.
struct GroupId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(const GroupId&, const GroupId&) = default;
};

/// A parameter in the caller's memory, outside of every budget: only its states are paged. The
/// memory must stay until UnbindParameter, or until the optimizer is destroyed. The optimizer owns
/// it from the group's GradientReady on until the step is over, in Load, and while a save lacks
/// parts (SaveHandle::HasEveryPart).
struct ParameterBinding {
  std::string name = {};  ///< name in messages and saves, not empty
  DType type = DType::kF32;
  std::vector<std::int64_t> shape = {};  ///< elements per dimension, each at least 1; {}: a scalar
  std::span<std::byte> bytes = {};       ///< the elements, row-major
  /// An fp32 master ("NAME.master") is paged beside the states. An update changes the master, and
  /// writes it to the memory, rounded to nearest. f16 needs a master; bf16 is rounded
  /// stochastically without one. AddGroup and RefreshMaster take the master from the memory.
  bool master = false;
};

/// Memory that a bound parameter has from now on.
struct MovedParameter {
  TensorId parameter;
  std::span<std::byte> bytes;
};

/// Place of a parameter's gradient: fp32, bf16 or fp16, as many elements as the parameter. The
/// place is the caller's memory, outside of every budget, or a tensor of the Runtime. The memory
/// must stay until the step is over, or until an earlier end:
/// - With `accumulate`: AddGradient or GradientReady returns.
/// - Without clip_norm and skip_not_finite: WaitFor of the group has succeeded.
struct GradientBinding {
  DType type = DType::kF32;
  std::span<const std::byte> bytes = {};
  TensorId tensor = {};
  /// Whether the tensor's content is dead once the parameter is updated, or later if a repeated
  /// step would read it again for the norm. No other parameter may share the tensor then.
  bool discard = false;
};

/// Place of the bf16 or fp16 copy of an fp32 parameter: the caller's memory, outside of every
/// budget, or a tensor of the Runtime. The memory must stay until another is bound or the optimizer
/// goes. Updates write the copy in the same pass, Load and RefreshCopies from the parameters as
/// they are; nothing else does.
struct CopyBinding {
  DType type = DType::kBF16;
  std::span<std::byte> bytes = {};
  TensorId tensor = {};
};

/// Options of one step.
struct StepOptions {
  /// Divisor of the gradients, from 1e-75 to 1e75.
  double loss_scale = 1;
  /// Norm of all gradients as they are bound, before the division by loss_scale. norm_given needs
  /// it, and nothing else takes it. The norm is at least 0; infinite or NaN says that a gradient
  /// is.
  std::optional<double> gradient_norm = std::nullopt;
  /// Whether only the groups that are ready are updated, and the others sit this step out (frozen
  /// layers, experts that were not chosen). The others keep parameters, states, their own step
  /// counts, accumulated sums and bound gradients, and have no part in the norm.
  /// False: a group that is not ready is an error. A step that failed is repeated with the same
  /// groups.
  bool only_ready = false;
};

}  // namespace sluice
