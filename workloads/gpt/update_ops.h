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

/// The ops of one update, in the order in which the next forward needs what they update: first what
/// the embedding needs and all vectors (they share pages), then the matrices layer by layer.
using UpdateStages = std::vector<std::vector<OpSpec>>;

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

  /// All ops of the update number `update` (from 1): 1 + layers stages. They read the gradient norm
  /// when they run, and leave the matrices' gradients dead.
  UpdateStages Make(std::int64_t update, double learning_rate) const;

  /// The norm of all gradients. REQUIRES: every gradient's sum of squares is noted.
  double GradientNorm() const;

 private:
  /// A part of one parameter and of its companions.
  struct Part {
    std::size_t parameter = 0;
    ByteRange range;
  };
  /// What all ops of one update share.
  struct Moment {
    std::int64_t update = 0;
    double rate = 0;
  };
  OpSpec MakeOp(std::string name, std::vector<Part> parts, Moment moment) const;
  /// Appends the ops of one matrix.
  void AppendMatrix(std::size_t parameter, Moment moment, std::vector<OpSpec>* ops) const;
  OpSpec MakeVectors(Moment moment) const;
  double GradientScale() const;

  const TrainConfig& train_;
  const ParameterList& parameters_;
  const Tensors& tensors_;
  const StepState& state_;
};

}  // namespace sluice::gpt
