#pragma once

#include <cstdint>
#include <vector>

#include "sluice/schedule.h"
#include "workloads/gpt/model/config.h"

namespace sluice::gpt {

/// Savings and costs of recomputing a layer, all groups together.
struct LayerCosts {
  std::vector<std::uint32_t> tensors;  ///< tensors that the layer discards and makes again
  double bytes = 0;                    ///< bytes of these tensors
  double recompute_seconds = 0;        ///< seconds of making them again
  /// Seconds between the forward and the backward of a group, in the mean.
  double idle_seconds = 0;
};

/// Costs by layer, from the recorded schedule of a step that recomputed none. Costs of ops that the
/// schedule does not have are 0.
std::vector<LayerCosts> FindLayerCosts(const ModelConfig& model,
                                       const TrainConfig& train,
                                       const Schedule& schedule);

}  // namespace sluice::gpt
