#include "workloads/gpt/model/tensors.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "workloads/gpt/model/status.h"

namespace sluice::gpt {
namespace {

/// Creates tensors alone in their segments, remembering the first error.
class Creator {
 public:
  explicit Creator(Memory& memory) : memory_(memory) {}

  TensorId operator()(std::string name,
                      std::vector<std::int64_t> shape,
                      TensorKind kind = TensorKind::kActivation) {
    if (!status_.ok()) return {};
    const TensorSpec spec{.name = std::move(name), .shape = std::move(shape), .kind = kind};
    absl::StatusOr<std::vector<TensorId>> ids = memory_.CreateTensors({&spec, 1});
    status_ = ids.status();
    return ids.ok() ? ids->front() : TensorId{};
  }
  const absl::Status& status() const { return status_; }

 private:
  Memory& memory_;
  absl::Status status_;
};

LayerActivations CreateLayer(const ModelConfig& model,
                             int group_sequences,
                             const std::string& prefix,
                             const std::string& suffix,
                             Creator& create) {
  const std::int64_t rows = std::int64_t{group_sequences} * model.context;
  const std::int64_t d = model.width;
  const auto name = [&](const char* part) { return prefix + part + suffix; };
  return {
      .input = create(name("input"), {rows, d}),
      .ln1 = create(name("ln1"), {rows, d}),
      .qkv = create(name("qkv"), {rows, 3 * d}),
      .probabilities = create(name("probabilities"),
                              {group_sequences, model.heads, model.context, model.context}),
      .attention = create(name("attention"), {rows, d}),
      .middle = create(name("middle"), {rows, d}),
      .ln2 = create(name("ln2"), {rows, d}),
      .fc = create(name("fc"), {rows, 4 * d}),
      .gelu = create(name("gelu"), {rows, 4 * d}),
  };
}

ScratchTensors CreateScratch(const ModelConfig& model, std::int64_t rows, Creator& create) {
  const std::int64_t d = model.width;
  const auto scratch = [&](const char* name, std::vector<std::int64_t> shape) {
    return create(std::string("scratch.") + name, std::move(shape), TensorKind::kOther);
  };
  return {
      .d_fc = scratch("d_fc", {rows, 4 * d}),
      .d_ln = scratch("d_ln", {rows, d}),
      .d_qkv = scratch("d_qkv", {rows, 3 * d}),
      .d_attention = scratch("d_attention", {rows, d}),
      .d_scores = scratch("d_scores", {model.context, model.context}),
      .final_ln = scratch("final_ln", {rows, d}),
      .logits = scratch("logits", {rows, model.vocab}),
  };
}

void CreateActivations(const ModelConfig& model,
                       const TrainConfig& train,
                       Creator& create,
                       Tensors& tensors) {
  const int groups = train.batch / train.group_sequences;
  const std::int64_t rows = std::int64_t{train.group_sequences} * model.context;
  for (int layer = 0; layer < model.layers; ++layer) {
    std::vector<LayerActivations>& of_layer = tensors.layers.emplace_back();
    for (int group = 0; group < groups; ++group) {
      of_layer.push_back(CreateLayer(model,
                                     train.group_sequences,
                                     fmt::format("stash.l{}.", layer),
                                     fmt::format(".g{}", group),
                                     create));
    }
  }
  for (int group = 0; group < groups; ++group) {
    tensors.outputs.push_back(create(fmt::format("stash.output.g{}", group), {rows, model.width}));
    tensors.d_stream.push_back(create(fmt::format("d_stream.g{}", group), {rows, model.width}));
  }
  tensors.scratch = CreateScratch(model, rows, create);
}

}  // namespace

absl::StatusOr<std::vector<TensorId>> CreatePerParameter(const ParameterList& parameters,
                                                         const std::string& suffix,
                                                         TensorKind kind,
                                                         Memory& memory) {
  std::vector<TensorId> ids(parameters.all.size());
  std::vector<TensorSpec> together;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const TensorSpec spec = SpecOf(parameters.all[i], suffix, kind);
    if (parameters.all[i].is_vector()) {
      together.push_back(spec);
      indices.push_back(i);
      continue;
    }
    GPT_ASSIGN_OR_RETURN(const std::vector<TensorId> alone, memory.CreateTensors({&spec, 1}));
    ids[i] = alone.front();
  }
  GPT_ASSIGN_OR_RETURN(const std::vector<TensorId> shared, memory.CreateTensors(together));
  for (std::size_t i = 0; i < shared.size(); ++i) ids[indices[i]] = shared[i];
  return ids;
}

TensorSpec SpecOf(const Parameter& parameter, const std::string& suffix, TensorKind kind) {
  return {.name = parameter.name + suffix, .shape = parameter.shape, .kind = kind};
}

absl::StatusOr<Tensors> Tensors::Create(const ModelConfig& model,
                                        const TrainConfig& train,
                                        const ParameterList& parameters,
                                        Memory& memory) {
  Tensors tensors;
  GPT_ASSIGN_OR_RETURN(tensors.values,
                       CreatePerParameter(parameters, "", TensorKind::kParameter, memory));
  GPT_ASSIGN_OR_RETURN(tensors.gradients,
                       CreatePerParameter(parameters, ".grad", TensorKind::kGradient, memory));
  Creator create(memory);
  CreateActivations(model, train, create, tensors);
  if (!create.status().ok()) return create.status();
  return tensors;
}

}  // namespace sluice::gpt
