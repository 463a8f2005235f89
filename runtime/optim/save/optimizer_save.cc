#include <utility>

#include "base/status.h"
#include "runtime/optim/optimizer/errors.h"
#include "runtime/optim/optimizer/optimizer_impl.h"
#include "runtime/optim/save/optimizer_saves.h"
#include "runtime/optim/save/part_saver.h"
#include "runtime/optim/save/save_layout.h"
#include "runtime/optim/save/saved_tensors.h"
#include "runtime/optim/save/state_writer.h"

namespace sluice::optim {

std::string OptimizerSaves::Layout() const {
  const OptimizerOptions& optimizer = options_.optimizer;
  SaveLayout layout{.kind = optimizer.kind, .state = optimizer.state, .seed = optimizer.seed};
  for (const ParameterGroup& group : options_.groups) {
    LayoutGroup& to = layout.groups.emplace_back();
    to.name = group.name;
    for (const std::uint32_t index : group.entries) {
      const ParameterEntry& entry = options_.table.entries[index];
      to.parameters.push_back({entry.name, entry.type, entry.count});
    }
  }
  return WriteLayout(layout);
}

SaveText OptimizerSaves::Describe(std::string_view note, std::int64_t step) const {
  SaveText text{.layout = Layout(), .step = step, .note = std::string(note)};
  for (const ParameterGroup& group : options_.groups) text.rates.push_back(group.rates);
  text.steps.emplace();
  for (const ParameterEntry& entry : options_.table.entries) {
    text.steps->push_back(OwnStep(entry, text.step));
    text.shapes.push_back(entry.shape);
  }
  return text;
}

absl::StatusOr<std::shared_ptr<internal::SaveState>> OptimizerSaves::Start(
    const std::string& directory, std::string_view note, std::int64_t step, StepRunner& runner) {
  for (const ParameterGroup& group : options_.groups) {
    if (!group.accumulated) continue;
    return NotReady(
        "group '{}' has gradients that are added up, which a save does not hold; save after a step",
        group.name);
  }
  internal::SaveThread::Finish(std::move(thread_));
  SLUICE_RETURN_IF_ERROR(CheckSavedTensors(options_.runtime, options_.table.entries));
  SaveText text = Describe(note, step);
  SLUICE_ASSIGN_OR_RETURN(std::vector<SavedTensor> tensors, TensorsOfLayout(text.layout));
  SLUICE_ASSIGN_OR_RETURN(auto writer,
                          StateWriter::Create(directory, std::move(tensors), file_calls_));
  const auto saver =
      std::make_shared<PartSaver>(PartSaver::Options{.runtime = options_.runtime,
                                                     .lane = options_.optimizer.lane,
                                                     .parts = options_.parts,
                                                     .state_type = options_.optimizer.state},
                                  options_.table.entries);
  const auto state =
      internal::SaveState::Create(std::move(writer), std::move(text), saver->parts());
  SLUICE_ASSIGN_OR_RETURN(thread_, internal::SaveThread::Create(state));
  saver->SetState(state);
  runner.BeginSave(saver);
  state->SetAskForRest([runner = &runner] { runner->WriteRestOfSave(); });
  return state;
}

}  // namespace sluice::optim

namespace sluice {

absl::StatusOr<SaveHandle> OffloadedOptimizer::Impl::StartSave(const std::string& directory,
                                                               std::string_view note) {
  const std::int64_t steps = Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckIdle());
  SLUICE_ASSIGN_OR_RETURN(auto save, saves_.Start(directory, note, steps, *runner_));
  return SaveHandle(std::move(save));
}

}  // namespace sluice
