#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/analysis/recompute/recompute.h"
#include "sluice/schedule.h"
#include "tools/train/report/link_bounds.h"
#include "tools/train/report/run_report.h"
#include "tools/train/run/train_session.h"
#include "tools/train/settings/train_settings.h"

namespace sluice::tools {

/// What a step that recomputes no layer asks of the links, and what each layer would save and cost:
/// from its recorded schedule, whose ops are taken to compute for `compute_seconds` together, and
/// the links' rates.
analysis::RecomputeProblem MakeRecomputeProblem(const TrainSettings& settings,
                                                const Schedule& schedule,
                                                double compute_seconds,
                                                const std::map<std::string, LinkRates>& rates);

/// The plan of analysis::PlanRecompute where it saves enough to be worth a change; else no layer is
/// recomputed.
RecomputeReport DecideRecompute(const analysis::RecomputeProblem& problem);

/// `train.recompute = "planned"`: decides once, from the steps before.
/// Threads: externally synchronised.
class RecomputePlanner {
 public:
  explicit RecomputePlanner(gpt::Recompute recompute)
      : pending_(recompute == gpt::Recompute::kPlanned) {}

  /// False when nothing is to be decided, or it is.
  bool pending() const { return pending_; }
  /// Sets the trainer's choice, and judges no more the steps made so far if it recomputes. The
  /// report tells what was decided. Errors: those of Runtime::RecordedSchedule.
  absl::Status Decide(TrainSession& session, RunReport* report);

 private:
  bool pending_;
};

}  // namespace sluice::tools
