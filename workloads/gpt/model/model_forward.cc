#include <cmath>

#include "fmt/format.h"
#include "workloads/gpt/compute/gemm.h"
#include "workloads/gpt/model/model_ops.h"

namespace sluice::gpt {
namespace {

/// Whether what only the layer's own backward needs dies in its forward.
bool DropsStash(Pass pass) { return pass == Pass::kKeepInput || pass == Pass::kEvaluate; }

}  // namespace

OpSpec ModelOps::EmbedForward(const BatchPointer& batch, int group) const {
  OpDraft op(fmt::format("embed.forward.g{}", NumberOf(group)));
  const std::size_t tokens = Value(op, parameters_.tokens);
  const std::size_t positions = Value(op, parameters_.positions);
  const std::size_t x = op.Overwrite(Stash({0, group}).input);
  return op.Finish([=, this](const OpBuffers& b) {
    Embed(Rows(model_.width),
          static_cast<std::size_t>(model_.context),
          OfGroup(batch->inputs, group),
          b.Floats(tokens),
          b.Floats(positions),
          b.Floats(x));
  });
}

OpSpec ModelOps::QkvForward(LayerGroup place, Pass pass) const {
  const LayerActivations& stash = Stash(place);
  const LayerParameters& weights = Weights(place);
  OpDraft op(ForwardName(place, "qkv", pass));
  op.SetRepeatable();
  const std::size_t x = op.Read(stash.input);
  const std::size_t gain = Value(op, weights.ln1_gain);
  const std::size_t shift = Value(op, weights.ln1_bias);
  const std::size_t weight = Value(op, weights.qkv_weight);
  const std::size_t bias = Value(op, weights.qkv_bias);
  const std::size_t ln1 = op.Overwrite(stash.ln1);
  const std::size_t qkv = op.Overwrite(stash.qkv);
  if (DropsStash(pass)) op.Discard(stash.ln1);
  return op.Finish([=, this](const OpBuffers& b) {
    const int d = model_.width;
    LayerNorm(Rows(d), b.Floats(x), b.Floats(gain), b.Floats(shift), b.Floats(ln1));
    Gemm(threads_,
         gemms_.qkv,
         1.0f,
         {b.Floats(ln1), d},
         {b.Floats(weight), 3 * d},
         Accumulate::kNo,
         {b.Floats(qkv), 3 * d});
    AddBias(Rows(3 * d), b.Floats(bias), b.Floats(qkv));
  });
}

/// `qkv` and `attention` begin with the columns of the head. Queries, keys and values of head h are
/// columns [h * size, (h + 1) * size) of each third of qkv.
void ModelOps::AttendHead(const float* qkv, float* probabilities, float* attention) const {
  const int d = model_.width;
  const int size = d / model_.heads;
  const int t = model_.context;
  const auto scale = 1.0f / std::sqrt(static_cast<float>(size));
  const MatrixIn query{qkv, 3 * d}, key{qkv + d, 3 * d}, value{qkv + 2 * d, 3 * d};
  GemmAlone(threads_, gemms_.scores, 1.0f, query, key, Accumulate::kNo, {probabilities, t});
  CausalSoftmax(static_cast<std::size_t>(t), scale, probabilities);
  GemmAlone(
      threads_, gemms_.context, 1.0f, {probabilities, t}, value, Accumulate::kNo, {attention, d});
}

OpSpec ModelOps::AttentionForward(LayerGroup place, Pass pass) const {
  const LayerActivations& stash = Stash(place);
  const LayerParameters& weights = Weights(place);
  OpDraft op(ForwardName(place, "attention", pass));
  op.SetRepeatable();
  const std::size_t x = op.Read(stash.input);
  const std::size_t qkv = op.Read(stash.qkv);
  const std::size_t weight = Value(op, weights.out_weight);
  const std::size_t bias = Value(op, weights.out_bias);
  const std::size_t probabilities = op.Overwrite(stash.probabilities);
  const std::size_t attention = op.Overwrite(stash.attention);
  const std::size_t middle = op.Overwrite(stash.middle);
  if (pass == Pass::kEvaluate) op.Discard(stash.input);
  if (DropsStash(pass)) {
    for (const TensorId dead : {stash.qkv, stash.probabilities, stash.attention}) op.Discard(dead);
  }
  return op.Finish([=, this](const OpBuffers& b) {
    const int d = model_.width;
    const std::ptrdiff_t t = model_.context;
    const std::ptrdiff_t heads = model_.heads;
    const auto tasks = static_cast<std::size_t>(train_.group_sequences * heads);
    threads_.ForEach(tasks, [&](std::size_t i) {
      const std::ptrdiff_t sequence = static_cast<std::ptrdiff_t>(i) / heads;
      const std::ptrdiff_t column = static_cast<std::ptrdiff_t>(i) % heads * (d / heads);
      AttendHead(b.Floats(qkv) + sequence * t * 3 * d + column,
                 b.Floats(probabilities) + static_cast<std::ptrdiff_t>(i) * t * t,
                 b.Floats(attention) + sequence * t * d + column);
    });
    StartResidual(Rows(d), b.Floats(x), b.Floats(bias), b.Floats(middle));
    Gemm(threads_,
         gemms_.out,
         1.0f,
         {b.Floats(attention), d},
         {b.Floats(weight), d},
         Accumulate::kYes,
         {b.Floats(middle), d});
  });
}

ModelOps::HiddenAccesses ModelOps::AccessHidden(OpDraft& op, LayerGroup place) const {
  const LayerActivations& stash = Stash(place);
  const LayerParameters& weights = Weights(place);
  return {.middle = op.Read(stash.middle),
          .gain = Value(op, weights.ln2_gain),
          .shift = Value(op, weights.ln2_bias),
          .fc_weight = Value(op, weights.fc_weight),
          .fc_bias = Value(op, weights.fc_bias),
          .ln2 = op.Overwrite(stash.ln2),
          .fc = op.Overwrite(stash.fc),
          .gelu = op.Overwrite(stash.gelu)};
}

void ModelOps::ComputeHidden(const OpBuffers& b, const HiddenAccesses& hidden) const {
  const int d = model_.width;
  LayerNorm(Rows(d),
            b.Floats(hidden.middle),
            b.Floats(hidden.gain),
            b.Floats(hidden.shift),
            b.Floats(hidden.ln2));
  Gemm(threads_,
       gemms_.fc,
       1.0f,
       {b.Floats(hidden.ln2), d},
       {b.Floats(hidden.fc_weight), 4 * d},
       Accumulate::kNo,
       {b.Floats(hidden.fc), 4 * d});
  BiasGelu(Rows(4 * d), b.Floats(hidden.fc_bias), b.Floats(hidden.fc), b.Floats(hidden.gelu));
}

OpSpec ModelOps::MlpForward(LayerGroup place, Pass pass) const {
  const LayerActivations& stash = Stash(place);
  const LayerParameters& weights = Weights(place);
  OpDraft op(ForwardName(place, "mlp", pass));
  op.SetRepeatable();
  const HiddenAccesses hidden = AccessHidden(op, place);
  const std::size_t proj_weight = Value(op, weights.proj_weight);
  const std::size_t proj_bias = Value(op, weights.proj_bias);
  const std::size_t out = op.Overwrite(StreamAfter(place));
  if (DropsStash(pass)) {
    for (const TensorId dead : {stash.middle, stash.ln2, stash.fc, stash.gelu}) op.Discard(dead);
  }
  return op.Finish([=, this](const OpBuffers& b) {
    const int d = model_.width;
    ComputeHidden(b, hidden);
    StartResidual(Rows(d), b.Floats(hidden.middle), b.Floats(proj_bias), b.Floats(out));
    Gemm(threads_,
         gemms_.proj,
         1.0f,
         {b.Floats(hidden.gelu), 4 * d},
         {b.Floats(proj_weight), d},
         Accumulate::kYes,
         {b.Floats(out), d});
  });
}

OpSpec ModelOps::MlpRecompute(LayerGroup place) const {
  OpDraft op(ForwardName(place, "mlp", Pass::kRecompute));
  const HiddenAccesses hidden = AccessHidden(op, place);
  return op.Finish([=, this](const OpBuffers& b) { ComputeHidden(b, hidden); });
}

}  // namespace sluice::gpt
