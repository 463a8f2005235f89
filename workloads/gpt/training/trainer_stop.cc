// Steps that are given up, and what is saved of a step that failed.
#include "fmt/format.h"
#include "sluice/runtime.h"
#include "sluice/tensor.h"
#include "workloads/gpt/model/status.h"
#include "workloads/gpt/training/trainer_impl.h"

namespace sluice::gpt {
namespace {

/// Frees what is only for the updates of a step that is not made.
absl::Status DiscardGradients(const ParameterList& parameters,
                              const Tensors& tensors,
                              Runtime* runtime) {
  if (runtime == nullptr) return absl::OkStatus();
  for (std::size_t i = 0; i < parameters.all.size(); ++i) {
    // Vectors share pages, and a discard acts on whole pages only.
    if (parameters.all[i].is_vector()) continue;
    const ByteRange all{0, parameters.all[i].count() * sizeof(float)};
    GPT_RETURN_IF_ERROR(runtime->Discard(tensors.gradients[i], all));
  }
  return absl::OkStatus();
}

/// Frees what a step leaves to its backward, and what its ops hand on.
absl::Status DiscardActivations(const Tensors& tensors, Runtime* runtime) {
  if (runtime == nullptr) return absl::OkStatus();
  std::vector<TensorId> all = tensors.outputs;
  all.insert(all.end(), tensors.d_stream.begin(), tensors.d_stream.end());
  const ScratchTensors& s = tensors.scratch;
  for (const TensorId each :
       {s.d_fc, s.d_ln, s.d_qkv, s.d_attention, s.d_scores, s.final_ln, s.logits}) {
    all.push_back(each);
  }
  for (const std::vector<LayerActivations>& layer : tensors.layers) {
    for (const LayerActivations& a : layer) {
      for (const TensorId each :
           {a.input, a.ln1, a.qkv, a.probabilities, a.attention, a.middle, a.ln2, a.fc, a.gelu}) {
        all.push_back(each);
      }
    }
  }
  for (const TensorId tensor : all) GPT_RETURN_IF_ERROR(runtime->Discard(tensor));
  return absl::OkStatus();
}

}  // namespace

absl::Status Trainer::Impl::DropStep(absl::Status why) {
  state_.micro = 0;
  GPT_RETURN_IF_ERROR(LeaveIteration());
  GPT_RETURN_IF_ERROR(Note(DiscardGradients(parameters_, tensors_, memory_.runtime())));
  return why;
}

absl::Status Trainer::Impl::Recover() {
  memory_.Abandon();
  threads_->ForgetFailure();
  broken_ = absl::OkStatus();
  state_.micro = 0;
  if (updater_->begun()) {
    return Note(absl::FailedPreconditionError(
        fmt::format("updates of step {} began before its backward failed", step_ + 1)));
  }
  GPT_RETURN_IF_ERROR(Note(DiscardActivations(tensors_, memory_.runtime())));
  if (!updater_->pending()) {
    return Note(DiscardGradients(parameters_, tensors_, memory_.runtime()));
  }
  return Note(updater_->Repeat());
}

}  // namespace sluice::gpt
