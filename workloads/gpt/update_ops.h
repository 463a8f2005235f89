#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/optim/adamw.h"
#include "workloads/gpt/config.h"
#include "workloads/gpt/memory.h"
#include "workloads/gpt/parameters.h"
#include "workloads/gpt/tensors.h"
#include "workloads/gpt/updater.h"

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

  UpdateOps(const TrainConfig& train, const ParameterList& parameters, const Tensors& tensors)
      : train_(train), parameters_(parameters), tensors_(tensors) {}

  /// All ops of an update: 1 + layers stages. They leave the matrices' gradients dead.
  UpdateStages Make(const Update& update) const;

 private:
  /// A part of one parameter and of its companions.
  struct Part {
    std::size_t parameter = 0;
    ByteRange range;
  };
  OpSpec MakeOp(std::string name, std::vector<Part> parts, const Update& update) const;
  /// Appends the ops of one matrix.
  void AppendMatrix(std::size_t parameter, const Update& update, std::vector<OpSpec>* ops) const;
  OpSpec MakeVectors(const Update& update) const;
  double GradientScale(const Update& update) const;

  const TrainConfig& train_;
  const ParameterList& parameters_;
  const Tensors& tensors_;
};

}  // namespace sluice::gpt
