#include "tools/train/conclusion.h"

#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "fmt/format.h"
#include "tools/support/exit_code.h"
#include "tools/train/report/run_report.h"

namespace sluice::tools {
namespace {

int ExitCode(const RunReport& report, const InterruptWatch& watch) {
  if (report.interrupted) return kExitSignal + watch.signal();
  const std::optional<VerifyReport>& verify = report.verify;
  if (!verify.has_value() || verify->identical) return kExitDone;
  PrintError("the run differs from the run in RAM: " + verify->difference);
  return kExitDiffers;
}

/// Reason for which the wanted saves are not made; empty: they are. Parameters that cannot be read
/// cannot be saved either, which the save will say. A save that was begun is ended, as no later one
/// does it.
std::string WhyNotSaved(TrainRun& run, TrainSession& session, const TrainFlags& flags) {
  if (flags.save_path.empty() && flags.save_state_path.empty() && flags.state_path.empty()) {
    return "";
  }
  if (!run.loss_is_finite()) {
    session.EndBegunSaves();
    return "the last loss is no finite number";
  }
  // A run that was not interrupted ends with a validation.
  if (!run.interrupted() || session.HasFiniteParameters().value_or(true)) return "";
  session.WithdrawLastSave();
  session.EndBegunSaves();
  return "the last update left parameters that are no finite numbers";
}

}  // namespace

int Conclude(TrainRun& run,
             TrainSession& session,
             const TrainFlags& flags,
             Console& console,
             const InterruptWatch& watch) {
  const std::string why_not = WhyNotSaved(run, session, flags);
  std::vector<absl::Status> failures = session.WriteOutputs(
      why_not.empty() ? TrainSession::Saves::kWritten : TrainSession::Saves::kLeftAlone);
  const RunReport report = run.TakeReport();
  console.Print(FormatSummary(report));
  console.PrintJson(FormatJson(report));
  // The user who interrupts may have closed the pipe before.
  if (!report.interrupted && !console.status().ok()) failures.push_back(console.status());
  int exit_code = ExitCode(report, watch);
  if (!why_not.empty()) {
    PrintError(fmt::format("{}: --save and {} wrote nothing, and earlier saves are as they were",
                           why_not,
                           flags.state_path.empty() ? "--save-state" : "--state"));
    if (exit_code == kExitDone) exit_code = kExitUserError;
  }
  for (const absl::Status& failure : failures) PrintError(base::ToStd(failure.message()));
  return failures.empty() ? exit_code : kExitDeviceFailure;
}

}  // namespace sluice::tools
