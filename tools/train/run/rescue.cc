#include "tools/train/run/rescue.h"

#include <string_view>
#include <vector>

#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/optimizer.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {
namespace {

/// Repetitions of what is missing: each may free what the next one needs.
constexpr int kRepetitions = 3;

absl::Status MakeStepWhole(gpt::Trainer& trainer) {
  absl::Status whole = trainer.Recover();
  for (int i = 1; i < kRepetitions && !whole.ok(); ++i) whole = trainer.Recover();
  return whole;
}

std::string OlderSave(const std::string& place) {
  const absl::StatusOr<std::vector<FoundSave>> saves = ListSaves(place);
  for (const FoundSave& save : saves.value_or(std::vector<FoundSave>())) {
    const absl::StatusOr<OptimizerSave> older = OffloadedOptimizer::ReadSave(save.directory);
    if (older.ok()) {
      return fmt::format("the save of step {} in {} is as it was", older->step, place);
    }
  }
  return fmt::format("there is no older save in {}", place);
}

std::string NothingSaved(const std::string& why, const std::string& place) {
  return fmt::format("nothing was saved, as {}; {}", why, OlderSave(place));
}

}  // namespace

std::string RescueState(TrainSession& session, LastLoss loss) {
  const std::string& place = session.save_place();
  if (place.empty())
    return "nothing was saved, as neither --state nor --save-state names a directory";
  if (loss == LastLoss::kNotFinite) return NothingSaved("the last loss is no finite number", place);
  absl::Status saved = MakeStepWhole(session.trainer());
  if (saved.ok() && !session.has_unsaved_steps()) {
    return NothingSaved(fmt::format("no step was made since step {}", session.trainer().step()),
                        place);
  }
  if (saved.ok() && !session.HasFiniteParameters().value_or(true)) {
    return NothingSaved("the last update left parameters that are no finite numbers", place);
  }
  if (saved.ok()) saved = session.SaveState();
  // One that was begun before may still become whole.
  if (!saved.ok()) session.saver().FinishBegun().IgnoreError();
  if (!saved.ok()) return NothingSaved(std::string(base::ToStd(saved.message())), place);
  const std::string_view flag = session.state_is_named() ? "--state" : "--resume";
  return fmt::format(
      "saved step {0} in {1}; {2} {1} goes on from there", session.trainer().step(), place, flag);
}

}  // namespace sluice::tools
