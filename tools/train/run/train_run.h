#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "tools/support/console.h"
#include "tools/train/report/op_times.h"
#include "tools/train/report/run_report.h"
#include "tools/train/run/link_pacer.h"
#include "tools/train/run/signal_answer.h"
#include "tools/train/run/steps.h"
#include "tools/train/run/train_session.h"
#include "tools/train/run/verifier.h"
#include "tools/train/settings/recompute_planner.h"
#include "tools/train/state/save_failures.h"

namespace sluice::tools {

/// The loop of `sluice train`. It makes steps in blocks until all are made or a signal asks for an
/// end. If there is a verifier, the same block follows in RAM. After a signal, a step or validation
/// ends at its next micro-batch or batch, without effect. Threads: externally synchronised.
class TrainRun {
 public:
  struct Parts {
    TrainSession& session;
    Verifier* verifier = nullptr;  ///< may be null
    Console& console;
    SignalAnswer& signals;
  };
  explicit TrainRun(const Parts& parts);

  /// Errors: those of the trainer and of the run in RAM.
  absl::Status Run();
  /// Report of the run, once it has ended.
  RunReport TakeReport();
  /// Times of the judged steps' ops. Lifetime: as this.
  const OpTimes& op_times() const { return op_times_; }
  bool interrupted() const { return parts_.signals.interrupted(); }
  /// Whether the last step had a finite loss, and its validation too. Else nothing is to be saved.
  bool loss_is_finite() const { return loss_is_finite_; }

 private:
  absl::Status Begin();
  absl::Status MakeSteps();
  absl::Status MakeBlock();
  absl::Status MakeStep();
  /// Ends a step: runs the validation if one is due.
  absl::Status EndStep(StepOutcome* outcome);
  /// Errors: FailedPrecondition after too many steps in a row without a finite loss.
  absl::Status CheckLoss(int step, const StepOutcome& outcome);
  void SaveIfDue();
  void Warn(const std::vector<std::string>& lines);
  void NoteLoss(bool finite);
  absl::Status WithdrawSave(int step);
  absl::Status CheckResumedLoss(float val_loss) const;
  absl::Status RunInRam();
  absl::Status PaceAfterBlock(double ram_step_seconds);
  absl::Status PaceAlone();
  absl::Status SetPace(double ram_step_seconds);
  /// Lets the planner choose what is recomputed, once the links have their rates.
  absl::Status PlanRecompute();
  absl::Status Finish();
  absl::Status Verify();
  /// A finished link-bound computation, held against what crossed the links.
  absl::Status FillBounds();
  /// Seconds that the model's ops of the main key take together, at most; infinite if unknown.
  double SecondsOfOpsMax() const;
  /// Keeps the times of the step that `followers` steps have followed, if it is judged. REQUIRES:
  /// its iteration has ended.
  absl::Status KeepOpTimes(std::size_t followers);
  void PrintStep(const StepRecord& step, const StepOutcome& outcome);
  bool Done();

  const Parts parts_;
  const int steps_;  ///< steps of the whole training
  LinkPacer pacer_;
  RecomputePlanner recompute_;
  RunReport report_;
  OpTimes op_times_;
  std::vector<StepOutcome> block_;
  /// The last iteration has all ops of a step, and none of a save: its schedule is a step's.
  bool schedule_is_whole_ = false;
  SaveFailures save_failures_;
  bool loss_is_finite_ = true;
  int not_finite_steps_ = 0;  ///< steps in a row, up to the last one, without a finite loss
};

}  // namespace sluice::tools
