#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/optimizer_impl.h"
#include "runtime/optim/save/part_saver.h"
#include "runtime/optim/save/save_layout.h"
#include "runtime/optim/save/saved_tensors.h"
#include "runtime/optim/save/state_writer.h"

namespace sluice {

namespace {

using optim::ParameterEntry;

absl::Status SumsError(const std::string& group) {
  return absl::FailedPreconditionError(base::ToAbsl(fmt::format(
      "group '{}' has gradients that are added up, which a save does not hold; save after a step",
      group)));
}

}  // namespace

std::string OffloadedOptimizer::Impl::Layout() const {
  optim::SaveLayout layout{.kind = options_.kind, .state = options_.state, .seed = options_.seed};
  for (const Group& group : groups_) {
    optim::LayoutGroup& to = layout.groups.emplace_back();
    to.name = group.name;
    for (const std::uint32_t index : group.entries) {
      const ParameterEntry& entry = table_.entries[index];
      to.parameters.push_back({entry.name, entry.type, entry.count});
    }
  }
  return optim::WriteLayout(layout);
}

optim::SaveText OffloadedOptimizer::Impl::DescribeSave(std::string_view note) const {
  optim::SaveText text{.layout = Layout(), .step = step(), .note = std::string(note)};
  for (const Group& group : groups_) text.rates.push_back(group.rates);
  text.steps.emplace();
  for (const ParameterEntry& entry : table_.entries) {
    text.steps->push_back(optim::OwnStep(entry, text.step));
    text.shapes.push_back(entry.shape);
  }
  return text;
}

absl::StatusOr<SaveHandle> OffloadedOptimizer::Impl::StartSave(const std::string& directory,
                                                               std::string_view note) {
  Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckIdle());
  for (const Group& group : groups_) {
    if (group.accumulated) return SumsError(group.name);
  }
  internal::SaveThread::Finish(std::move(save_thread_));
  SLUICE_RETURN_IF_ERROR(optim::CheckSavedTensors(runtime_, table_.entries));
  optim::SaveText text = DescribeSave(note);
  SLUICE_ASSIGN_OR_RETURN(std::vector<optim::SavedTensor> tensors,
                          optim::TensorsOfLayout(text.layout));
  SLUICE_ASSIGN_OR_RETURN(auto writer,
                          optim::StateWriter::Create(directory, std::move(tensors), file_calls_));
  const auto saver =
      std::make_shared<optim::PartSaver>(optim::PartSaver::Options{.runtime = runtime_,
                                                                   .lane = options_.lane,
                                                                   .parts = parts_,
                                                                   .state_type = options_.state},
                                         table_.entries);
  const auto state =
      internal::SaveState::Create(std::move(writer), std::move(text), saver->parts());
  SLUICE_ASSIGN_OR_RETURN(save_thread_, internal::SaveThread::Create(state));
  saver->SetState(state);
  runner_->BeginSave(saver);
  state->SetAskForRest([runner = runner_.get()] { runner->WriteRestOfSave(); });
  return SaveHandle(state);
}

absl::Status OffloadedOptimizer::Impl::Save(const std::string& directory, std::string_view note) {
  SLUICE_ASSIGN_OR_RETURN(SaveHandle save, StartSave(directory, note));
  return save.Wait();
}

}  // namespace sluice
