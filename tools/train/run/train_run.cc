#include "tools/train/run/train_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/support/wrap.h"
#include "tools/train/report/step_text.h"

namespace sluice::tools {
namespace {

/// Spaces before a line that goes on.
constexpr std::size_t kIndent = 4;

/// "1:05"
std::string Duration(double seconds) {
  const auto whole = static_cast<int>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

TrainRun::TrainRun(const Parts& parts)
    : parts_(parts),
      steps_(parts.session.settings().train.steps),
      pacer_(parts.session.settings().emulated_load),
      recompute_(parts.session.settings().train.recompute),
      save_failures_(parts.session.steps_before()) {
  report_.steps_wanted = steps_;
  report_.steps_before = parts.session.steps_before();
  report_.verify_wanted = parts.verifier != nullptr;
}

RunReport TrainRun::TakeReport() {
  report_.interrupted = interrupted();
  return std::move(report_);
}

bool TrainRun::Done() {
  if (parts_.signals.Attend()) return true;
  if (parts_.verifier != nullptr && !parts_.verifier->difference().empty()) return true;
  return parts_.session.trainer().step() >= steps_;
}

absl::Status TrainRun::Run() {
  absl::Status made = MakeSteps();
  Warn(save_failures_.Take());
  if (!made.ok() && !(absl::IsCancelled(made) && interrupted())) return made;
  if (interrupted()) parts_.signals.SaveForEnd();
  return Finish();
}

absl::Status TrainRun::MakeSteps() {
  SLUICE_RETURN_IF_ERROR(Begin());
  while (!Done()) SLUICE_RETURN_IF_ERROR(MakeBlock());
  return absl::OkStatus();
}

absl::Status TrainRun::Begin() {
  parts_.console.ShowProgress("validating");
  SLUICE_ASSIGN_OR_RETURN(const float val_loss, parts_.session.trainer().Validate());
  SLUICE_RETURN_IF_ERROR(CheckResumedLoss(val_loss));
  report_.val_loss_first = val_loss;
  if (parts_.verifier != nullptr) parts_.verifier->CompareFirstValidation(val_loss);
  return absl::OkStatus();
}

absl::Status TrainRun::MakeBlock() {
  block_.clear();
  const std::size_t limit = parts_.verifier != nullptr ? kBlockSteps : 1;
  const int left = steps_ - parts_.session.trainer().step();
  const std::size_t count = std::min(limit, static_cast<std::size_t>(left));
  absl::Status loss;
  while (block_.size() < count && !parts_.signals.Attend() && loss.ok()) {
    SLUICE_RETURN_IF_ERROR(MakeStep());
    loss = CheckLoss(report_.steps.back().step, block_.back());
    SLUICE_RETURN_IF_ERROR(WithdrawSave(report_.steps.back().step));
    SaveIfDue();
  }
  if (interrupted()) return absl::OkStatus();
  if (parts_.verifier == nullptr) return loss.ok() ? PaceAlone() : loss;
  // A loss that paging spoilt counts as a difference, not as a wrong learning rate.
  SLUICE_RETURN_IF_ERROR(RunInRam());
  return parts_.verifier->difference().empty() ? loss : absl::OkStatus();
}

absl::Status TrainRun::RunInRam() {
  parts_.console.ShowProgress("the same steps in RAM");
  SLUICE_ASSIGN_OR_RETURN(const double ram_step_seconds, parts_.verifier->RunBlock(block_, [this] {
    return parts_.signals.Attend();
  }));
  return PaceAfterBlock(ram_step_seconds);
}

absl::Status TrainRun::MakeStep() {
  TrainSession& session = parts_.session;
  StepOutcome outcome;
  session.monitor().BeginStep();
  const int saves = parts_.signals.saves();
  schedule_is_whole_ = false;
  const gpt::UpdateTime update = UpdateTimeOfNext(session.trainer(), session.settings().train);
  SLUICE_ASSIGN_OR_RETURN(const gpt::StepResult result,
                          TrainOnce(session.trainer(), update, &outcome));
  // A signal may ask for a save before the validation has ended.
  if (!std::isfinite(outcome.loss)) NoteLoss(false);
  const int step = session.trainer().step();
  report_.steps.push_back(session.monitor().EndStep(step, result, outcome));
  schedule_is_whole_ = saves == parts_.signals.saves();
  report_.steps.back().judged &= schedule_is_whole_;
  SLUICE_RETURN_IF_ERROR(KeepOpTimes(1));
  return EndStep(&outcome);
}

absl::Status TrainRun::EndStep(StepOutcome* outcome) {
  TrainSession& session = parts_.session;
  absl::Status validated = ValidateIfDue(session.trainer(), session.settings().train, outcome);
  if (outcome->validated != 0) report_.val_loss = outcome->val_loss;
  block_.push_back(*outcome);
  PrintStep(report_.steps.back(), *outcome);
  return validated;
}

absl::Status TrainRun::WithdrawSave(int step) {
  // A validation that is none tells of this step's own update, which is not saved.
  if (std::isfinite(block_.back().loss)) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::string done, parts_.session.saver().OnLossNotFinite(step));
  if (!done.empty()) parts_.console.Log(LogLevel::kWarning, done);
  return absl::OkStatus();
}

/// Checks the loss after the save that the run goes on from. The run before may have been killed
/// before that loss showed the save to be bad.
absl::Status TrainRun::CheckResumedLoss(float val_loss) const {
  const bool asks = parts_.session.settings().not_finite_steps > 0;
  const int step = parts_.session.steps_before();
  if (!asks || step == 0 || std::isfinite(val_loss)) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "the validation loss of the save after step {} is no finite number; to go on from "
      "the save before it, move it away",
      step));
}

/// A run outlives a save that fails: the older ones stand, and the next may succeed.
void TrainRun::SaveIfDue() {
  // An interrupted run is saved at its end.
  if (interrupted() || !loss_is_finite()) return;
  StateSaver& saver = parts_.session.saver();
  const absl::Status saved = saver.SaveIfDue(parts_.session.trainer().step());
  Warn(save_failures_.Note(saved, saver.saved_step()));
}

void TrainRun::Warn(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) parts_.console.Log(LogLevel::kWarning, line);
}

void TrainRun::NoteLoss(bool finite) {
  loss_is_finite_ = finite;
  parts_.signals.NoteLoss(finite);
}

absl::Status TrainRun::CheckLoss(int step, const StepOutcome& outcome) {
  const bool validated = outcome.validated != 0;
  const bool finite =
      std::isfinite(outcome.loss) && (!validated || std::isfinite(outcome.val_loss));
  not_finite_steps_ = finite ? 0 : not_finite_steps_ + 1;
  NoteLoss(finite);
  const int limit = parts_.session.settings().not_finite_steps;
  if (limit == 0 || not_finite_steps_ < limit) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "the loss is no finite number since step {}, for {} steps (\"train.not_finite_steps\"): "
      "lower "
      "\"train.learning_rate\" or set \"train.clip_norm\"; nothing was saved since, and earlier "
      "saves are as they were",
      step - not_finite_steps_ + 1,
      not_finite_steps_));
}

absl::Status TrainRun::PaceAfterBlock(double ram_step_seconds) {
  if (pacer_.pending()) {
    parts_.verifier->ForgetRatios();
    SLUICE_RETURN_IF_ERROR(SetPace(ram_step_seconds));
  }
  return PlanRecompute();
}

/// The step in RAM, if there was none, counts as long as the compute of the last step.
absl::Status TrainRun::PaceAlone() {
  if (report_.steps.size() < kUnpacedStepsAlone) return absl::OkStatus();
  if (!pacer_.pending() && !recompute_.pending()) return absl::OkStatus();
  if (!schedule_is_whole_) return absl::OkStatus();
  // The first usual step after --resume may be the last one. EndIteration makes its schedule known.
  SLUICE_RETURN_IF_ERROR(parts_.session.EndIteration());
  const StepRecord& step = report_.steps.back();
  if (pacer_.pending()) SLUICE_RETURN_IF_ERROR(SetPace(step.seconds - step.stall_seconds));
  return PlanRecompute();
}

absl::Status TrainRun::PlanRecompute() {
  if (!recompute_.pending()) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(recompute_.Decide(parts_.session, &report_));
  const bool changes = report_.recompute->layers_recomputed > 0;
  if (changes) op_times_.Forget();
  if (changes && parts_.verifier != nullptr) parts_.verifier->ForgetRatios();
  const std::string text = fmt::format(
      "recompute: {}{}\n",
      FormatRecompute(*report_.recompute),
      changes ? fmt::format("; the {} steps so far are not judged", report_.steps.size()) : "");
  parts_.console.Print(WrapLines(text, kIndent));
  return absl::OkStatus();
}

absl::Status TrainRun::SetPace(double ram_step_seconds) {
  SLUICE_RETURN_IF_ERROR(pacer_.SetPace(ram_step_seconds, parts_.session, &report_));
  op_times_.Forget();
  const std::string text = fmt::format(
      "{} paced at {:.3f} GiB/s each way: its bound takes {:.0f} % of a step in RAM of "
      "{:.1f} ms; the {} steps so far are not judged\n",
      kDeviceLink,
      pacer_.rate() / static_cast<double>(1 << 30),
      100 * parts_.session.settings().emulated_load,
      ram_step_seconds * 1e3,
      report_.steps.size());
  parts_.console.Print(WrapLines(text, kIndent));
  return absl::OkStatus();
}

absl::Status TrainRun::Finish() {
  SLUICE_RETURN_IF_ERROR(parts_.session.EndIteration());
  if (!report_.steps.empty() && schedule_is_whole_) {
    SLUICE_RETURN_IF_ERROR(KeepOpTimes(0));
    SLUICE_RETURN_IF_ERROR(FillBounds());
  }
  parts_.session.monitor().Fill(&report_);
  report_.compute = parts_.session.compute();
  if (std::optional<FallbackEvent> fallback = gpt::FallbackOf(*report_.compute)) {
    report_.fallbacks.push_back(*std::move(fallback));
  }
  if (interrupted()) return absl::OkStatus();
  if (parts_.verifier != nullptr) {
    parts_.console.ShowProgress("comparing every parameter and optimizer state");
    return Verify();
  }
  return absl::OkStatus();
}

absl::Status TrainRun::Verify() {
  absl::StatusOr<VerifyReport> verified =
      parts_.verifier->Finish(parts_.session.trainer(), [this] { return interrupted(); });
  if (absl::IsCancelled(verified.status()) && interrupted()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(report_.verify, std::move(verified));
  return absl::OkStatus();
}

void TrainRun::PrintStep(const StepRecord& step, const StepOutcome& outcome) {
  parts_.console.Print(FormatStep(
      step, steps_, outcome.validated != 0 ? std::optional(outcome.val_loss) : std::nullopt));
  const int left = steps_ - step.step;
  parts_.console.ShowProgress(fmt::format(
      "step {}/{}, about {} left", step.step, steps_, Duration(left * StepSecondsMedian(report_))));
}

}  // namespace sluice::tools
