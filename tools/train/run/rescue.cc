#include "tools/train/run/rescue.h"

#include <string_view>
#include <vector>

#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/optimizer.h"
#include "tools/support/exit_code.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {
namespace {

/// Repetitions of the missing parts. Each may free memory that the next one needs.
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

/// A save that was begun before may still become whole, and is then the one that stands.
std::string NothingSaved(const std::string& why, TrainSession& session) {
  session.saver().FinishBegun().IgnoreError();
  return fmt::format("nothing was saved, as {}; {}", why, OlderSave(session.save_place()));
}

}  // namespace

std::string RescueState(TrainSession& session, LastLoss loss) {
  const std::string& place = session.save_place();
  if (place.empty())
    return "nothing was saved, as neither --state nor --save-state names a directory";
  const absl::Status whole = MakeStepWhole(session.trainer());
  if (loss == LastLoss::kNotFinite) {
    return NothingSaved("the last loss is no finite number", session);
  }
  if (!whole.ok()) return NothingSaved(std::string(base::ToStd(whole.message())), session);
  if (!session.has_unsaved_steps()) {
    return NothingSaved(fmt::format("no step was made since step {}", session.trainer().step()),
                        session);
  }
  if (!session.HasFiniteParameters().value_or(true)) {
    session.WithdrawLastSave();
    return NothingSaved("the last update left parameters that are no finite numbers", session);
  }
  // A save that fails says itself which one stands.
  if (const absl::Status saved = session.SaveState(); !saved.ok()) {
    return fmt::format("nothing was saved: {}", base::ToStd(saved.message()));
  }
  const std::string_view flag = session.state_is_named() ? "--state" : "--resume";
  return fmt::format(
      "saved step {0} in {1}; {2} {1} goes on from there", session.trainer().step(), place, flag);
}

int EndAfterFailure(const absl::Status& failure, TrainSession& session, LastLoss loss) {
  PrintError(base::ToStd(failure.message()));
  PrintError(RescueState(session, loss));
  return kExitDeviceFailure;
}

}  // namespace sluice::tools
