#include "workloads/gpt/training/update_states.h"

#include <string>
#include <utility>
#include <vector>

#include "runtime/optim/parameters/parameter_entry.h"
#include "workloads/gpt/model/status.h"
#include "workloads/gpt/training/update_groups.h"

namespace sluice::gpt {
namespace {

DType TypeOf(StateType type) {
  if (type == StateType::k8Bit) return DType::kU8;
  return type == StateType::kBf16 ? DType::kBF16 : DType::kF32;
}

TensorSpec MakeSpec(std::string name, std::uint64_t bytes, DType type) {
  return {.name = std::move(name),
          .shape = {static_cast<std::int64_t>(bytes / SizeOf(type))},
          .dtype = type,
          .kind = TensorKind::kOptimizer};
}

/// States of one group. Large ones are created at once.
class GroupStates {
 public:
  explicit GroupStates(Memory& memory) : memory_(memory) {}

  absl::Status Add(TensorSpec spec, TensorId* place) {
    if (2 * SizeOf(spec).count() < memory_.page_bytes().count()) {
      small_.push_back(std::move(spec));
      places_.push_back(place);
      return absl::OkStatus();
    }
    GPT_ASSIGN_OR_RETURN(const std::vector<TensorId> alone, memory_.CreateTensors({&spec, 1}));
    *place = alone.front();
    return absl::OkStatus();
  }

  absl::Status CreateSmall() {
    if (small_.empty()) return absl::OkStatus();
    GPT_ASSIGN_OR_RETURN(const std::vector<TensorId> ids, memory_.CreateTensors(small_));
    for (std::size_t i = 0; i < ids.size(); ++i) *places_[i] = ids[i];
    return absl::OkStatus();
  }

 private:
  Memory& memory_;
  std::vector<TensorSpec> small_;
  std::vector<TensorId*> places_;
};

absl::Status AddStates(const UpdaterParts& parts, std::size_t index, GroupStates& states) {
  const Parameter& parameter = parts.parameters.all[index];
  const StateType type = parts.train.states;
  for (std::size_t s = 0; s < 2; ++s) {
    GPT_RETURN_IF_ERROR(states.Add(
        MakeSpec(parameter.name + kMomentSuffixes[s], MomentBytes(parameter, type), TypeOf(type)),
        &parts.tensors.moments[s][index]));
  }
  if (type != StateType::k8Bit) return absl::OkStatus();
  for (std::size_t s = 0; s < 2; ++s) {
    GPT_RETURN_IF_ERROR(states.Add(
        MakeSpec(
            parameter.name + kMomentSuffixes[s] + kScaleSuffix, ScaleBytes(parameter), DType::kF32),
        &parts.tensors.scales[s][index]));
  }
  return absl::OkStatus();
}

}  // namespace

std::uint64_t MomentBytes(const Parameter& parameter, StateType type) {
  return parameter.count() * optim::BytesOf(type);
}

std::uint64_t ScaleBytes(const Parameter& parameter) {
  return optim::BytesOfScales({0, parameter.count()}).bytes;
}

absl::Status CreateStates(const UpdaterParts& parts) {
  for (std::size_t s = 0; s < 2; ++s) {
    parts.tensors.moments[s].resize(parts.parameters.all.size());
    if (parts.train.states == StateType::k8Bit) {
      parts.tensors.scales[s].resize(parts.parameters.all.size());
    }
  }
  for (const UpdateGroup& group : GroupsOf(parts.parameters)) {
    GroupStates states(parts.memory);
    for (const std::size_t index : group.parameters) {
      GPT_RETURN_IF_ERROR(AddStates(parts, index, states));
    }
    GPT_RETURN_IF_ERROR(states.CreateSmall());
  }
  return absl::OkStatus();
}

}  // namespace sluice::gpt
