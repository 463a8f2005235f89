#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"
#include "sluice/optimizer.h"
#include "workloads/gpt/memory/memory.h"
#include "workloads/gpt/model/config.h"
#include "workloads/gpt/model/parameters.h"
#include "workloads/gpt/model/tensors.h"
#include "workloads/gpt/training/update_groups.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::gpt {

/// The ops of one update, in the order in which the next forward needs the parameters. First come
/// the groups of the embedding and of all vectors, then the matrices layer by layer.
using UpdateStages = std::vector<std::vector<OpSpec>>;

/// Makes the ops of the optimizer: AdamW on parameters, gradients and moments in dram, frame by
/// frame. An op takes a range of kRangeElements of each tensor, or a page if that is more. The bits
/// are those of an OffloadedOptimizer. Lifetime: that of ModelOps.
class UpdateOps {
 public:
  /// Elements of a range: whole blocks of 8-bit states, and as fp32 a multiple of the usual page
  /// sizes, so that ranges do not cut pages.
  static constexpr std::uint64_t kRangeElements = std::uint64_t{1} << 18;

  explicit UpdateOps(const UpdaterParts& parts);

  /// All ops of an update: 1 + layers stages. They leave the matrices' gradients dead.
  UpdateStages Make(const Update& update) const;

 private:
  /// A part of one parameter and of its companions.
  struct Part {
    std::size_t parameter = 0;
    ElementRange elements;
  };
  /// Appends the part's accesses.
  void Access(const Part& part, std::vector<sluice::Access>* accesses) const;
  OpSpec MakeOp(std::string name, std::vector<Part> parts, const Update& update) const;
  void UpdatePart(const OpBuffers& buffers,
                  std::size_t first_access,
                  const Part& part,
                  const Update& update) const;
  /// Appends the ops of one matrix.
  void AppendMatrix(std::size_t parameter, const Update& update, std::vector<OpSpec>* ops) const;
  OpSpec MakeVectors(const UpdateGroup& vectors, const Update& update) const;

  const TrainConfig& train_;
  const ParameterList& parameters_;
  const Tensors& tensors_;
  const std::uint64_t range_elements_;
  const optim::Kernel kernel_;
  const std::vector<UpdateGroup> groups_;
  std::vector<std::uint64_t> places_;  ///< place of each parameter in the order of the groups
};

}  // namespace sluice::gpt
