#pragma once

#include <vector>

#include "workloads/gpt/model/config.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {

/// Every matrix product of a training step, with its count per step. The ops run exactly these.
/// Rows are those of one group of sequences.
struct GemmShapes {
  GemmShapes(const ModelConfig& model, const TrainConfig& train);

  /// All products, and their floating-point operations per step.
  std::vector<GemmShape> All() const;
  double Flops() const;

  // Forward.
  GemmShape qkv, scores, context, out, fc, proj, logits;
  // Backward: d_x is the gradient of a product's left factor, d_w of its right one.
  GemmShape d_final_ln, d_tokens;
  GemmShape d_gelu, d_proj_weight;
  GemmShape d_ln2, d_fc_weight;
  GemmShape d_attention, d_out_weight;
  GemmShape d_probabilities, d_value, d_query, d_key;
  GemmShape d_ln1, d_qkv_weight;
};

}  // namespace sluice::gpt
