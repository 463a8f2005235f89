#include "workloads/gpt/training/update_ops.h"

#include <algorithm>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "runtime/optim/kernels/step_scalars.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/step/part_update.h"
#include "workloads/gpt/model/op_draft.h"

namespace sluice::gpt {
namespace {

/// Accesses per part: value, gradient, two moments, and of 8-bit ones two runs of scales.
std::size_t AccessCount(StateType states) { return states == StateType::k8Bit ? 6 : 4; }

/// The pieces of a part whose accesses begin with `first`.
optim::PartMemory MemoryOf(const OpBuffers& b, std::size_t first, StateType states) {
  const auto pieces = [&](std::size_t access, std::size_t element_bytes) {
    const std::span<const std::span<std::byte>> spans = b.Spans(access);
    return optim::Pieces({spans.begin(), spans.end()}, element_bytes);
  };
  optim::PartMemory memory{.parameter = pieces(first, sizeof(float)),
                           .gradient = pieces(first + 1, sizeof(float))};
  for (std::size_t s = 0; s < 2; ++s) {
    memory.states[s] = pieces(first + 2 + s, optim::BytesOf(states));
    if (states == StateType::k8Bit) memory.scales[s] = pieces(first + 4 + s, sizeof(float));
  }
  return memory;
}

}  // namespace

UpdateOps::UpdateOps(const UpdaterParts& parts)
    : train_(parts.train),
      parameters_(parts.parameters),
      tensors_(parts.tensors),
      range_elements_(std::max(kRangeElements, parts.memory.page_bytes().count() / sizeof(float))),
      kernel_(optim::FindKernel({.state = parts.train.states}).value()),
      groups_(GroupsOf(parts.parameters)),
      places_(parts.parameters.all.size()) {
  std::uint64_t place = 0;
  for (const UpdateGroup& group : groups_) {
    for (const std::size_t parameter : group.parameters) places_[parameter] = place++;
  }
}

void UpdateOps::Access(const Part& part, std::vector<sluice::Access>* accesses) const {
  const auto add = [&](const std::vector<TensorId>& tensors, ByteRange range, AccessMode mode) {
    accesses->push_back({.tensor = tensors[part.parameter],
                         .range = range,
                         .mode = mode,
                         .tier = kDram0,
                         .contiguous = false});
  };
  const ByteRange floats = optim::BytesOfElements(part.elements, sizeof(float));
  add(tensors_.values, floats, AccessMode::kReadWrite);
  add(tensors_.gradients, floats, AccessMode::kRead);
  const ByteRange states = optim::BytesOfElements(part.elements, optim::BytesOf(train_.states));
  for (const auto& moments : tensors_.moments) add(moments, states, AccessMode::kReadWrite);
  if (train_.states != StateType::k8Bit) return;
  const ByteRange blocks = optim::BytesOfScales(part.elements);
  for (const auto& scales : tensors_.scales) add(scales, blocks, AccessMode::kReadWrite);
}

void UpdateOps::UpdatePart(const OpBuffers& buffers,
                           std::size_t first_access,
                           const Part& part,
                           const Update& update) const {
  const bool decays = !parameters_.all[part.parameter].is_vector();
  const GroupRates rates = {.learning_rate = update.learning_rate,
                            .beta1 = train_.beta1,
                            .beta2 = train_.beta2,
                            .eps = train_.eps,
                            .weight_decay = decays ? train_.weight_decay : 0.0};
  optim::UpdateElements(
      kernel_,
      {.scalars = optim::MakeScalars(
           rates, update.number, optim::ClipFactor(train_.clip_norm, update.gradient_norm)),
       .key = {.seed = train_.seed,
               .tensor = places_[part.parameter],
               .step = static_cast<std::uint64_t>(update.number)},
       .element = part.elements.begin},
      MemoryOf(buffers, first_access, train_.states),
      0,
      part.elements.count);
}

OpSpec UpdateOps::MakeOp(std::string name, std::vector<Part> parts, const Update& update) const {
  OpDraft op(std::move(name));
  op.SetLane("cpu");
  std::vector<sluice::Access> accesses;
  for (const Part& part : parts) {
    Access(part, &accesses);
    const Parameter& parameter = parameters_.all[part.parameter];
    // Vectors share pages, and a discard acts on whole pages only.
    if (!parameter.is_vector() && part.elements.begin + part.elements.count == parameter.count()) {
      op.Discard(tensors_.gradients[part.parameter]);
    }
  }
  for (const sluice::Access& access : accesses) op.Add(access);
  return op.Finish([=, this](const OpBuffers& b) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      UpdatePart(b, i * AccessCount(train_.states), parts[i], update);
    }
  });
}

void UpdateOps::AppendMatrix(std::size_t parameter,
                             const Update& update,
                             std::vector<OpSpec>* ops) const {
  const Parameter& matrix = parameters_.all[parameter];
  for (std::uint64_t begin = 0; begin < matrix.count(); begin += range_elements_) {
    const ElementRange elements{begin, std::min(range_elements_, matrix.count() - begin)};
    std::string name =
        fmt::format("{}{}.{}", kUpdateOpPrefix, matrix.name, begin / range_elements_);
    ops->push_back(MakeOp(std::move(name), {{parameter, elements}}, update));
  }
}

OpSpec UpdateOps::MakeVectors(const UpdateGroup& vectors, const Update& update) const {
  std::vector<Part> parts;
  for (const std::size_t i : vectors.parameters) {
    parts.push_back({i, {0, parameters_.all[i].count()}});
  }
  return MakeOp("update.vectors", std::move(parts), update);
}

UpdateStages UpdateOps::Make(const Update& update) const {
  const auto stage_of = [](std::size_t group) {
    return group < kGroupsBeforeLayers ? 0 : 1 + (group - kGroupsBeforeLayers) / kGroupsPerLayer;
  };
  UpdateStages stages(stage_of(groups_.size() - 1) + 1);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<OpSpec>& ops = stages[stage_of(g)];
    const UpdateGroup& group = groups_[g];
    if (parameters_.all[group.parameters[0]].is_vector()) {
      ops.push_back(MakeVectors(group, update));
      continue;
    }
    for (const std::size_t matrix : group.parameters) AppendMatrix(matrix, update, &ops);
  }
  return stages;
}

}  // namespace sluice::gpt
