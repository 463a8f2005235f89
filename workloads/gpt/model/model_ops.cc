#include "workloads/gpt/model/model_ops.h"

#include <algorithm>

#include "fmt/format.h"
#include "runtime/optim/kernels/gradient_scan.h"

namespace sluice::gpt {

ModelOps::ModelOps(const ModelConfig& model,
                   const TrainConfig& train,
                   const ParameterList& parameters,
                   const Tensors& tensors,
                   ComputeThreads& threads,
                   StepResults& state)
    : model_(model),
      train_(train),
      parameters_(parameters),
      tensors_(tensors),
      threads_(threads),
      state_(state),
      gemms_(model, train),
      rows_(static_cast<std::size_t>(train.group_sequences) *
            static_cast<std::size_t>(model.context)) {}

std::string ModelOps::Name(LayerGroup place, const char* what) const {
  return fmt::format("l{}.{}.g{}", place.layer, what, NumberOf(place.group));
}

std::string ModelOps::ForwardName(LayerGroup place, const char* what, Pass pass) const {
  if (pass != Pass::kRecompute)
    return fmt::format("l{}.{}.forward.g{}", place.layer, what, NumberOf(place.group));
  return fmt::format("recompute.l{}.{}.g{}", place.layer, what, NumberOf(place.group));
}

const LayerActivations& ModelOps::Stash(LayerGroup place) const {
  return tensors_
      .layers[static_cast<std::size_t>(place.layer)][static_cast<std::size_t>(place.group)];
}

const LayerParameters& ModelOps::Weights(LayerGroup place) const {
  return parameters_.layers[static_cast<std::size_t>(place.layer)];
}

/// The residual stream after a layer: the input of the next one, or the output of the last one.
TensorId ModelOps::StreamAfter(LayerGroup place) const {
  if (place.layer + 1 < model_.layers) return Stash({place.layer + 1, place.group}).input;
  return tensors_.outputs[static_cast<std::size_t>(place.group)];
}

std::size_t ModelOps::Value(OpDraft& op, std::size_t parameter) const {
  return op.Read(tensors_.values[parameter]);
}

ModelOps::Turn ModelOps::TurnOf(int group) const {
  const int number = NumberOf(group);
  return {number == 0, number == train_.micro_batches * groups() - 1};
}

void ModelOps::DropGradient(OpDraft& op, std::size_t parameter, Turn turn) const {
  // Vectors share pages, and a discard acts on whole pages only.
  if (!state_.drops_gradients || !turn.last || parameters_.all[parameter].is_vector()) return;
  op.Discard(tensors_.gradients[parameter]);
}

ModelOps::Gradient ModelOps::Gradients(OpDraft& op, std::size_t parameter, Turn turn) const {
  const std::size_t access =
      op.Add({.tensor = tensors_.gradients[parameter],
              .mode = turn.first ? AccessMode::kOverwrite : AccessMode::kReadWrite,
              .tier = kDram0});
  return {access, parameter};
}

const std::uint8_t* ModelOps::OfGroup(const std::vector<std::uint8_t>& ids, int group) const {
  return ids.data() + static_cast<std::size_t>(group) * rows_;
}

float* ModelOps::Summand(const OpBuffers& buffers, Gradient gradient, Turn turn) const {
  float* values = buffers.Floats(gradient.access);
  if (turn.first) std::fill_n(values, parameters_.all[gradient.parameter].count(), 0.0f);
  return values;
}

void ModelOps::NoteSquares(const OpBuffers& buffers,
                           Turn turn,
                           std::initializer_list<Gradient> gradients) const {
  if (!turn.last) return;
  for (const Gradient& gradient : gradients) {
    state_.gradient_squares[gradient.parameter] = optim::SumOfSquares(
        {buffers.Floats(gradient.access), parameters_.all[gradient.parameter].count()});
  }
}

}  // namespace sluice::gpt
