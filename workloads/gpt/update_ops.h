#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/optim/adamw.h"
#include "workloads/gpt/config.h"
#include "workloads/gpt/memory.h"
#include "workloads/gpt/model_ops.h"
#include "workloads/gpt/parameters.h"
#include "workloads/gpt/tensors.h"

namespace sluice::gpt {

/// Makes the ops of the optimizer: AdamW on parameters, gradients and moments where they are, in
/// dram, frame by frame, a range of at most kRangeBytes of each tensor per op.
/// Lifetime: as ModelOps.
class UpdateOps {
 public:
  /// A multiple of the usual page sizes, so that ranges do not cut pages.
  static constexpr std::uint64_t kRangeBytes = std::uint64_t{1} << 20;

  UpdateOps(const TrainConfig& train,
            const ParameterList& parameters,
            const Tensors& tensors,
            const StepState& state)
      : train_(train), parameters_(parameters), tensors_(tensors), state_(state) {}

  /// All ops of the update number `update` (from 1), in order. They read the gradient norm when
  /// they run, and leave the matrices' gradients dead.
  std::vector<OpSpec> Make(std::int64_t update, double learning_rate) const;

  /// The norm of all gradients. REQUIRES: every gradient's sum of squares is noted.
  double GradientNorm() const;

 private:
  /// A part of one parameter and of its companions.
  struct Part {
    std::size_t parameter = 0;
    ByteRange range;
  };
  OpSpec MakeOp(std::string name, std::vector<Part> parts, std::int64_t update, double rate) const;
  double GradientScale() const;

  const TrainConfig& train_;
  const ParameterList& parameters_;
  const Tensors& tensors_;
  const StepState& state_;
};

}  // namespace sluice::gpt
