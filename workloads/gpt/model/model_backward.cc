#include <cmath>

#include "fmt/format.h"
#include "workloads/gpt/compute/gemm.h"
#include "workloads/gpt/model/model_ops.h"

namespace sluice::gpt {
namespace {

Accumulate AccumulateUnless(bool first) { return first ? Accumulate::kNo : Accumulate::kYes; }

}  // namespace

OpSpec ModelOps::ProjBackward(LayerGroup place) const {
  const LayerActivations& stash = Stash(place);
  const LayerParameters& weights = Weights(place);
  const Turn turn = TurnOf(place.group);
  OpDraft op(Name(place, "proj.backward"));
  const std::size_t d_x = op.Read(tensors_.d_stream[static_cast<std::size_t>(place.group)]);
  const std::size_t gelu = op.Read(stash.gelu);
  const std::size_t fc = op.Read(stash.fc);
  const std::size_t weight = Value(op, weights.proj_weight);
  const std::size_t d_fc = op.Overwrite(tensors_.scratch.d_fc);
  const Gradient d_weight = Gradients(op, weights.proj_weight, turn);
  DropGradient(op, weights.proj_weight, turn);
  const Gradient d_bias = Gradients(op, weights.proj_bias, turn);
  op.Discard(stash.gelu);
  op.Discard(stash.fc);
  return op.Finish([=, this](const OpBuffers& b) {
    const int d = model_.width;
    Gemm(threads_,
         gemms_.d_proj_weight,
         1.0f,
         {b.Floats(gelu), 4 * d},
         {b.Floats(d_x), d},
         AccumulateUnless(turn.first),
         {b.Floats(d_weight.access), d});
    AddColumnSums(Rows(d), b.Floats(d_x), Summand(b, d_bias, turn));
    Gemm(threads_,
         gemms_.d_gelu,
         1.0f,
         {b.Floats(d_x), d},
         {b.Floats(weight), d},
         Accumulate::kNo,
         {b.Floats(d_fc), 4 * d});
    GeluBackward(rows_ * 4 * static_cast<std::size_t>(d), b.Floats(fc), b.Floats(d_fc));
    NoteSquares(b, turn, {d_weight, d_bias});
  });
}

OpSpec ModelOps::FcBackward(LayerGroup place) const {
  const LayerActivations& stash = Stash(place);
  const LayerParameters& weights = Weights(place);
  const Turn turn = TurnOf(place.group);
  OpDraft op(Name(place, "fc.backward"));
  const std::size_t d_fc = op.Read(tensors_.scratch.d_fc);
  const std::size_t ln2 = op.Read(stash.ln2);
  const std::size_t middle = op.Read(stash.middle);
  const std::size_t gain = Value(op, weights.ln2_gain);
  const std::size_t weight = Value(op, weights.fc_weight);
  const std::size_t d_ln = op.Overwrite(tensors_.scratch.d_ln);
  const std::size_t d_x = op.Update(tensors_.d_stream[static_cast<std::size_t>(place.group)]);
  const Gradient d_weight = Gradients(op, weights.fc_weight, turn);
  DropGradient(op, weights.fc_weight, turn);
  const Gradient d_bias = Gradients(op, weights.fc_bias, turn);
  const Gradient d_gain = Gradients(op, weights.ln2_gain, turn);
  const Gradient d_shift = Gradients(op, weights.ln2_bias, turn);
  for (const TensorId dead :
       {stash.ln2, stash.middle, tensors_.scratch.d_fc, tensors_.scratch.d_ln}) {
    op.Discard(dead);
  }
  return op.Finish([=, this](const OpBuffers& b) {
    const int d = model_.width;
    Gemm(threads_,
         gemms_.d_fc_weight,
         1.0f,
         {b.Floats(ln2), d},
         {b.Floats(d_fc), 4 * d},
         AccumulateUnless(turn.first),
         {b.Floats(d_weight.access), 4 * d});
    AddColumnSums(Rows(4 * d), b.Floats(d_fc), Summand(b, d_bias, turn));
    Gemm(threads_,
         gemms_.d_ln2,
         1.0f,
         {b.Floats(d_fc), 4 * d},
         {b.Floats(weight), 4 * d},
         Accumulate::kNo,
         {b.Floats(d_ln), d});
    LayerNormBackward(Rows(d),
                      b.Floats(middle),
                      b.Floats(gain),
                      b.Floats(d_ln),
                      {b.Floats(d_x), Summand(b, d_gain, turn), Summand(b, d_shift, turn)});
    NoteSquares(b, turn, {d_weight, d_bias, d_gain, d_shift});
  });
}

void ModelOps::AttendSequenceBackward(const float* qkv,
                                      const float* probabilities,
                                      const float* d_attention,
                                      float* d_scores,
                                      float* d_qkv) const {
  const int d = model_.width;
  const int size = d / model_.heads;
  const int t = model_.context;
  const auto scale = 1.0f / std::sqrt(static_cast<float>(size));
  for (int head = 0; head < model_.heads; ++head) {
    const MatrixIn query{qkv + head * size, 3 * d};
    const MatrixIn key{query.data + d, 3 * d};
    const MatrixIn value{query.data + 2 * d, 3 * d};
    const MatrixIn d_out{d_attention + head * size, d};
    const MatrixOut d_query{d_qkv + head * size, 3 * d};
    const MatrixOut d_key{d_query.data + d, 3 * d};
    const MatrixOut d_value{d_query.data + 2 * d, 3 * d};
    const MatrixIn d_in{d_scores, t};
    Gemm(threads_, gemms_.d_value, 1.0f, {probabilities, t}, d_out, Accumulate::kNo, d_value);
    Gemm(threads_, gemms_.d_probabilities, 1.0f, d_out, value, Accumulate::kNo, {d_scores, t});
    CausalSoftmaxBackward(static_cast<std::size_t>(t), scale, probabilities, d_scores);
    Gemm(threads_, gemms_.d_query, 1.0f, d_in, key, Accumulate::kNo, d_query);
    Gemm(threads_, gemms_.d_key, 1.0f, d_in, query, Accumulate::kNo, d_key);
    probabilities += std::ptrdiff_t{t} * t;
  }
}

OpSpec ModelOps::AttentionBackward(LayerGroup place) const {
  const LayerActivations& stash = Stash(place);
  const LayerParameters& weights = Weights(place);
  const ScratchTensors& scratch = tensors_.scratch;
  const Turn turn = TurnOf(place.group);
  OpDraft op(Name(place, "attention.backward"));
  const std::size_t d_x = op.Read(tensors_.d_stream[static_cast<std::size_t>(place.group)]);
  const std::size_t attention = op.Read(stash.attention);
  const std::size_t probabilities = op.Read(stash.probabilities);
  const std::size_t qkv = op.Read(stash.qkv);
  const std::size_t weight = Value(op, weights.out_weight);
  const std::size_t d_attention = op.Overwrite(scratch.d_attention);
  const std::size_t d_scores = op.Overwrite(scratch.d_scores);
  const std::size_t d_qkv = op.Overwrite(scratch.d_qkv);
  const Gradient d_weight = Gradients(op, weights.out_weight, turn);
  DropGradient(op, weights.out_weight, turn);
  const Gradient d_bias = Gradients(op, weights.out_bias, turn);
  for (const TensorId dead :
       {stash.attention, stash.probabilities, stash.qkv, scratch.d_attention, scratch.d_scores}) {
    op.Discard(dead);
  }
  return op.Finish([=, this](const OpBuffers& b) {
    const int d = model_.width;
    const MatrixIn d_out{b.Floats(d_x), d};
    Gemm(threads_,
         gemms_.d_out_weight,
         1.0f,
         {b.Floats(attention), d},
         d_out,
         AccumulateUnless(turn.first),
         {b.Floats(d_weight.access), d});
    AddColumnSums(Rows(d), d_out.data, Summand(b, d_bias, turn));
    const MatrixOut d_heads{b.Floats(d_attention), d};
    Gemm(
        threads_, gemms_.d_attention, 1.0f, d_out, {b.Floats(weight), d}, Accumulate::kNo, d_heads);
    const std::ptrdiff_t t = model_.context;
    for (std::ptrdiff_t sequence = 0; sequence < train_.group_sequences; ++sequence) {
      AttendSequenceBackward(b.Floats(qkv) + sequence * t * 3 * d,
                             b.Floats(probabilities) + sequence * model_.heads * t * t,
                             d_heads.data + sequence * t * d,
                             b.Floats(d_scores),
                             b.Floats(d_qkv) + sequence * t * 3 * d);
    }
    NoteSquares(b, turn, {d_weight, d_bias});
  });
}

OpSpec ModelOps::QkvBackward(LayerGroup place) const {
  const LayerActivations& stash = Stash(place);
  const LayerParameters& weights = Weights(place);
  const Turn turn = TurnOf(place.group);
  OpDraft op(Name(place, "qkv.backward"));
  const std::size_t d_qkv = op.Read(tensors_.scratch.d_qkv);
  const std::size_t ln1 = op.Read(stash.ln1);
  const std::size_t x = op.Read(stash.input);
  const std::size_t gain = Value(op, weights.ln1_gain);
  const std::size_t weight = Value(op, weights.qkv_weight);
  const std::size_t d_ln = op.Overwrite(tensors_.scratch.d_ln);
  const std::size_t d_x = op.Update(tensors_.d_stream[static_cast<std::size_t>(place.group)]);
  const Gradient d_weight = Gradients(op, weights.qkv_weight, turn);
  DropGradient(op, weights.qkv_weight, turn);
  const Gradient d_bias = Gradients(op, weights.qkv_bias, turn);
  const Gradient d_gain = Gradients(op, weights.ln1_gain, turn);
  const Gradient d_shift = Gradients(op, weights.ln1_bias, turn);
  for (const TensorId dead :
       {stash.ln1, stash.input, tensors_.scratch.d_qkv, tensors_.scratch.d_ln}) {
    op.Discard(dead);
  }
  return op.Finish([=, this](const OpBuffers& b) {
    const int d = model_.width;
    const MatrixIn d_out{b.Floats(d_qkv), 3 * d};
    Gemm(threads_,
         gemms_.d_qkv_weight,
         1.0f,
         {b.Floats(ln1), d},
         d_out,
         AccumulateUnless(turn.first),
         {b.Floats(d_weight.access), 3 * d});
    AddColumnSums(Rows(3 * d), d_out.data, Summand(b, d_bias, turn));
    Gemm(threads_,
         gemms_.d_ln1,
         1.0f,
         d_out,
         {b.Floats(weight), 3 * d},
         Accumulate::kNo,
         {b.Floats(d_ln), d});
    LayerNormBackward(Rows(d),
                      b.Floats(x),
                      b.Floats(gain),
                      b.Floats(d_ln),
                      {b.Floats(d_x), Summand(b, d_gain, turn), Summand(b, d_shift, turn)});
    NoteSquares(b, turn, {d_weight, d_bias, d_gain, d_shift});
  });
}

OpSpec ModelOps::EmbedBackward(const BatchPointer& batch, int group) const {
  const TensorId stream = tensors_.d_stream[static_cast<std::size_t>(group)];
  const Turn turn = TurnOf(group);
  // The head has written the tokens' gradient, so no group is the first here.
  const Turn tokens_turn{.first = false, .last = turn.last};
  OpDraft op(fmt::format("embed.backward.g{}", NumberOf(group)));
  const std::size_t d_x = op.Read(stream);
  const Gradient d_tokens = Gradients(op, parameters_.tokens, tokens_turn);
  const Gradient d_positions = Gradients(op, parameters_.positions, turn);
  DropGradient(op, parameters_.tokens, turn);
  DropGradient(op, parameters_.positions, turn);
  op.Discard(stream);
  return op.Finish([=, this](const OpBuffers& b) {
    sluice::gpt::EmbedBackward(Rows(model_.width),
                               static_cast<std::size_t>(model_.context),
                               OfGroup(batch->inputs, group),
                               b.Floats(d_x),
                               Summand(b, d_tokens, tokens_turn),
                               Summand(b, d_positions, turn));
    NoteSquares(b, turn, {d_tokens, d_positions});
  });
}

}  // namespace sluice::gpt
