#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "workloads/gpt/compute/compute_threads.h"
#include "workloads/gpt/compute/gemm_shapes.h"
#include "workloads/gpt/compute/kernels.h"
#include "workloads/gpt/memory/memory.h"
#include "workloads/gpt/model/config.h"
#include "workloads/gpt/model/dataset.h"
#include "workloads/gpt/model/op_draft.h"
#include "workloads/gpt/model/parameters.h"
#include "workloads/gpt/model/tensors.h"

namespace sluice::gpt {

/// Results that ops leave on the host; read them after Memory::Flush.
struct StepResults {
  double loss_sum = 0;  ///< cross-entropy of all rows so far, in nats
  /// The micro-batch, and whether nobody needs the gradients. Both are read when an op is made.
  int micro = 0;
  bool drops_gradients = false;
  /// Sum of squares of each parameter's gradient, once the gradient is complete.
  std::vector<double> gradient_squares;
};

/// Purpose of a layer's forward, which decides the activations that outlive their last forward use.
enum class Pass {
  kTrain,      ///< all activations stay, for the backward
  kKeepInput,  ///< the layer's input stays; kRecompute makes the others again from it
  kRecompute,  ///< all stay, for the backward that follows at once; makes no output
  kEvaluate,   ///< no activations stay
};

/// Place of an op's work.
struct LayerGroup {
  int layer = 0;
  int group = 0;
};

/// Makes the ops of the model; the trainer orders them. Each op works on one group of sequences, so
/// that its working set stays small. The first group of the first micro-batch overwrites weight
/// gradients, and the others add to them. The last group of the last micro-batch also notes their
/// sums of squares.
/// Lifetime: everything passed by reference outlives the object and its ops, the object its ops.
class ModelOps {
 public:
  using BatchPointer = std::shared_ptr<const Batch>;

  ModelOps(const ModelConfig& model,
           const TrainConfig& train,
           const ParameterList& parameters,
           const Tensors& tensors,
           ComputeThreads& threads,
           StepResults& state);

  OpSpec EmbedForward(const BatchPointer& batch, int group) const;
  OpSpec QkvForward(LayerGroup place, Pass pass) const;
  OpSpec AttentionForward(LayerGroup place, Pass pass) const;
  OpSpec MlpForward(LayerGroup place, Pass pass) const;
  /// Makes again the activations that MlpForward leaves for the backward, without the layer's
  /// output.
  OpSpec MlpRecompute(LayerGroup place) const;

  /// Final norm, output head and loss; with gradients.
  OpSpec HeadTrain(const BatchPointer& batch, int group) const;
  /// Final norm, output head and loss, without gradients.
  OpSpec HeadEvaluate(const BatchPointer& batch, int group) const;

  OpSpec ProjBackward(LayerGroup place) const;
  OpSpec FcBackward(LayerGroup place) const;
  OpSpec AttentionBackward(LayerGroup place) const;
  OpSpec QkvBackward(LayerGroup place) const;
  OpSpec EmbedBackward(const BatchPointer& batch, int group) const;

  int groups() const { return train_.batch / train_.group_sequences; }
  const GemmShapes& gemms() const { return gemms_; }

 private:
  /// A weight gradient that an op writes or adds to.
  struct Gradient {
    std::size_t access = 0;
    std::size_t parameter = 0;
  };
  /// Whether a group's contribution to a gradient is the first or the last one.
  struct Turn {
    bool first = false;
    bool last = false;
  };

  /// Accesses of both forwards of the MLP.
  struct HiddenAccesses {
    std::size_t middle, gain, shift, fc_weight, fc_bias, ln2, fc, gelu;
  };

  /// Accesses of every use of the head.
  struct HeadAccesses {
    std::size_t x, gain, shift, tokens, final_ln, logits;
  };

  Extent Rows(int width) const { return {rows_, static_cast<std::size_t>(width)}; }
  Turn TurnOf(int group) const;
  /// Number of a micro-batch's group within the step.
  int NumberOf(int group) const { return state_.micro * groups() + group; }
  /// Discards the gradient after the op, if nobody needs the gradients.
  void DropGradient(OpDraft& op, std::size_t parameter, Turn turn) const;
  std::string Name(LayerGroup place, const char* what) const;
  std::string ForwardName(LayerGroup place, const char* what, Pass pass) const;
  const LayerActivations& Stash(LayerGroup place) const;
  const LayerParameters& Weights(LayerGroup place) const;
  TensorId StreamAfter(LayerGroup place) const;
  std::size_t Value(OpDraft& op, std::size_t parameter) const;
  Gradient Gradients(OpDraft& op, std::size_t parameter, Turn turn) const;
  const std::uint8_t* OfGroup(const std::vector<std::uint8_t>& ids, int group) const;

  /// The gradient's bytes, zeros when this is the first turn.
  float* Summand(const OpBuffers& buffers, Gradient gradient, Turn turn) const;
  /// Notes sums of squares when this is the last turn.
  void NoteSquares(const OpBuffers& buffers,
                   Turn turn,
                   std::initializer_list<Gradient> gradients) const;

  HiddenAccesses AccessHidden(OpDraft& op, LayerGroup place) const;
  void ComputeHidden(const OpBuffers& buffers, const HiddenAccesses& hidden) const;
  HeadAccesses AccessHead(OpDraft& op, int group) const;
  void DiscardHead(OpDraft& op, int group) const;
  void ComputeLogits(const OpBuffers& buffers, const HeadAccesses& head) const;
  void AttendHead(const float* qkv, float* probabilities, float* attention) const;
  void AttendSequenceBackward(const float* qkv,
                              const float* probabilities,
                              const float* d_attention,
                              float* d_scores,
                              float* d_qkv) const;

  const ModelConfig& model_;
  const TrainConfig& train_;
  const ParameterList& parameters_;
  const Tensors& tensors_;
  ComputeThreads& threads_;
  StepResults& state_;
  const GemmShapes gemms_;
  const std::size_t rows_;  ///< rows of one group
};

}  // namespace sluice::gpt
