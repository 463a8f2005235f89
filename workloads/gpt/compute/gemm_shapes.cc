#include "workloads/gpt/compute/gemm_shapes.h"

namespace sluice::gpt {
namespace {

/// Shapes that occur equally often.
struct Maker {
  std::int64_t count;
  GemmShape Plain(int m, int n, int k) const { return {m, n, k, false, false, count}; }
  /// op(B) = B^T.
  GemmShape TransposedB(int m, int n, int k) const { return {m, n, k, false, true, count}; }
  /// op(A) = A^T.
  GemmShape TransposedA(int m, int n, int k) const { return {m, n, k, true, false, count}; }
};

}  // namespace

GemmShapes::GemmShapes(const ModelConfig& model, const TrainConfig& train) {
  const std::int64_t sequences = std::int64_t{train.micro_batches} * train.batch;
  const std::int64_t groups = sequences / train.group_sequences;
  const int rows = train.group_sequences * model.context;
  const int t = model.context;
  const int d = model.width;
  const int head = model.width / model.heads;

  const Maker per_group{groups};
  logits = per_group.TransposedB(rows, model.vocab, d);
  d_final_ln = per_group.Plain(rows, d, model.vocab);
  d_tokens = per_group.TransposedA(model.vocab, d, rows);

  const Maker per_layer{groups * model.layers};
  qkv = per_layer.Plain(rows, 3 * d, d);
  out = per_layer.Plain(rows, d, d);
  fc = per_layer.Plain(rows, 4 * d, d);
  proj = per_layer.Plain(rows, d, 4 * d);
  d_gelu = per_layer.TransposedB(rows, 4 * d, d);
  d_proj_weight = per_layer.TransposedA(4 * d, d, rows);
  d_ln2 = per_layer.TransposedB(rows, d, 4 * d);
  d_fc_weight = per_layer.TransposedA(d, 4 * d, rows);
  d_attention = per_layer.TransposedB(rows, d, d);
  d_out_weight = per_layer.TransposedA(d, d, rows);
  d_ln1 = per_layer.TransposedB(rows, d, 3 * d);
  d_qkv_weight = per_layer.TransposedA(d, 3 * d, rows);

  const Maker per_head{sequences * model.layers * model.heads};
  scores = per_head.TransposedB(t, t, head);
  context = per_head.Plain(t, head, t);
  d_probabilities = per_head.TransposedB(t, t, head);
  d_value = per_head.TransposedA(t, head, t);
  d_query = per_head.Plain(t, head, t);
  d_key = per_head.TransposedA(t, head, t);
}

std::vector<GemmShape> GemmShapes::All() const {
  return {qkv,          scores,          context, out,           fc,    proj,        logits,
          d_final_ln,   d_tokens,        d_gelu,  d_proj_weight, d_ln2, d_fc_weight, d_attention,
          d_out_weight, d_probabilities, d_value, d_query,       d_key, d_ln1,       d_qkv_weight};
}

double GemmShapes::Flops() const {
  double flops = 0;
  for (const GemmShape& shape : All()) {
    flops += 2.0 * shape.m * shape.n * shape.k * static_cast<double>(shape.count);
  }
  return flops;
}

}  // namespace sluice::gpt
