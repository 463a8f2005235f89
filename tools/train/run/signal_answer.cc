#include "tools/train/run/signal_answer.h"

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::tools {

SignalAnswer::SignalAnswer(TrainSession& session, Console& console, const InterruptWatch& watch)
    : session_(session), console_(console), watch_(watch) {
  session_.trainer().SetStop([this] { return Attend(); });
}

SignalAnswer::~SignalAnswer() { session_.trainer().SetStop({}); }

bool SignalAnswer::Attend() {
  if (watch_.TakeSaveRequest()) {
    console_.Log(LogLevel::kError, fmt::format("SIGUSR1: {}; the run goes on", SaveNow()));
  }
  return interrupted();
}

void SignalAnswer::SaveForEnd() {
  const bool wanted = !session_.save_place().empty() && session_.has_unsaved_steps();
  if (!wanted || !loss_is_finite_) return;
  // No later loss will tell of the last update. Parameters that cannot be read cannot be saved
  // either.
  if (!session_.HasFiniteParameters().value_or(true)) return;
  session_.SaveState().IgnoreError();
}

std::string SignalAnswer::SaveNow() {
  const std::string& place = session_.save_place();
  const int step = session_.trainer().step();
  if (place.empty())
    return "nothing was saved, as neither --state nor --save-state names a directory";
  if (!loss_is_finite_) return "nothing was saved, as the last loss is no finite number";
  if (!session_.has_unsaved_steps()) {
    return fmt::format("nothing was saved, as no step was made since step {}", step);
  }
  ++saves_;  // a save that fails ends the iteration, too
  // A save of such parameters would replace a good one. Parameters that cannot be read cannot be
  // saved either.
  if (!session_.HasFiniteParameters().value_or(true)) {
    return "nothing was saved, as the last update left parameters that are no finite numbers";
  }
  const absl::Status saved = session_.SaveState();
  if (!saved.ok()) return fmt::format("nothing was saved: {}", base::ToStd(saved.message()));
  return fmt::format("saved step {} in {}", step, place);
}

}  // namespace sluice::tools
