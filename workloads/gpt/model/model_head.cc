#include <algorithm>

#include "fmt/format.h"
#include "workloads/gpt/compute/gemm.h"
#include "workloads/gpt/model/model_ops.h"

namespace sluice::gpt {
ModelOps::HeadAccesses ModelOps::AccessHead(OpDraft& op, int group) const {
  return {.x = op.Read(tensors_.outputs[static_cast<std::size_t>(group)]),
          .gain = Value(op, parameters_.final_gain),
          .shift = Value(op, parameters_.final_bias),
          .tokens = Value(op, parameters_.tokens),
          .final_ln = op.Overwrite(tensors_.scratch.final_ln),
          .logits = op.Overwrite(tensors_.scratch.logits)};
}

void ModelOps::DiscardHead(OpDraft& op, int group) const {
  op.Discard(tensors_.outputs[static_cast<std::size_t>(group)]);
  op.Discard(tensors_.scratch.final_ln);
  op.Discard(tensors_.scratch.logits);
}

void ModelOps::ComputeLogits(const OpBuffers& b, const HeadAccesses& head) const {
  const int d = model_.width;
  LayerNorm(Rows(d),
            b.Floats(head.x),
            b.Floats(head.gain),
            b.Floats(head.shift),
            b.Floats(head.final_ln));
  Gemm(threads_,
       gemms_.logits,
       1.0f,
       {b.Floats(head.final_ln), d},
       {b.Floats(head.tokens), d},
       Accumulate::kNo,
       {b.Floats(head.logits), model_.vocab});
}

OpSpec ModelOps::HeadTrain(const BatchPointer& batch, int group) const {
  const Turn turn = TurnOf(group);
  OpDraft op(fmt::format("head.train.g{}", NumberOf(group)));
  const HeadAccesses head = AccessHead(op, group);
  const std::size_t d_ln = op.Overwrite(tensors_.scratch.d_ln);
  const std::size_t d_x = op.Overwrite(tensors_.d_stream[static_cast<std::size_t>(group)]);
  // The embedding's backward still adds to this one, so its sum of squares is noted there.
  const Gradient d_tokens = Gradients(op, parameters_.tokens, turn);
  const Gradient d_gain = Gradients(op, parameters_.final_gain, turn);
  const Gradient d_shift = Gradients(op, parameters_.final_bias, turn);
  DiscardHead(op, group);
  op.Discard(tensors_.scratch.d_ln);
  return op.Finish([=, this](const OpBuffers& b) {
    const int d = model_.width;
    ComputeLogits(b, head);
    const float mean =
        1.0f / static_cast<float>(train_.batch * train_.micro_batches * model_.context);
    state_.loss_sum += CrossEntropy(
        Rows(model_.vocab), OfGroup(batch->targets, group), mean, b.Floats(head.logits));
    Gemm(threads_,
         gemms_.d_tokens,
         1.0f,
         {b.Floats(head.logits), model_.vocab},
         {b.Floats(head.final_ln), d},
         turn.first ? Accumulate::kNo : Accumulate::kYes,
         {b.Floats(d_tokens.access), d});
    Gemm(threads_,
         gemms_.d_final_ln,
         1.0f,
         {b.Floats(head.logits), model_.vocab},
         {b.Floats(head.tokens), d},
         Accumulate::kNo,
         {b.Floats(d_ln), d});
    std::fill_n(b.Floats(d_x), rows_ * static_cast<std::size_t>(d), 0.0f);
    LayerNormBackward(Rows(d),
                      b.Floats(head.x),
                      b.Floats(head.gain),
                      b.Floats(d_ln),
                      {b.Floats(d_x), Summand(b, d_gain, turn), Summand(b, d_shift, turn)});
    NoteSquares(b, turn, {d_gain, d_shift});
  });
}

OpSpec ModelOps::HeadEvaluate(const BatchPointer& batch, int group) const {
  OpDraft op(fmt::format("head.evaluate.g{}", group));
  const HeadAccesses head = AccessHead(op, group);
  DiscardHead(op, group);
  return op.Finish([=, this](const OpBuffers& b) {
    ComputeLogits(b, head);
    state_.loss_sum += CrossEntropy(
        Rows(model_.vocab), OfGroup(batch->targets, group), 1.0f, b.Floats(head.logits));
  });
}

}  // namespace sluice::gpt
