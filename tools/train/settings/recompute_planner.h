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

/// The problem of which layers to recompute: the seconds of each link in a step that recomputes
/// none, and the savings and cost of each layer. They come from the step's recorded schedule, whose
/// ops are taken to compute for `compute_seconds` together, and the links' rates.
analysis::RecomputeProblem MakeRecomputeProblem(const TrainSettings& settings,
                                                const Schedule& schedule,
                                                double compute_seconds,
                                                const std::map<std::string, LinkRates>& rates);

/// The plan of analysis::PlanRecompute, if it saves enough to be worth a change. Else no layer is
/// recomputed.
RecomputeReport DecideRecompute(const analysis::RecomputeProblem& problem);

/// Planner of `train.recompute = "planned"`, which decides once, from the steps before.
/// Threads: externally synchronised.
class RecomputePlanner {
 public:
  explicit RecomputePlanner(gpt::Recompute recompute)
      : pending_(recompute == gpt::Recompute::kPlanned) {}

  /// Whether there is something to decide, and it is not decided yet.
  bool pending() const { return pending_; }
  /// Sets the trainer's choice. If that recomputes, the steps made so far are not judged any more.
  /// The report gets the decision. Errors: those of Runtime::RecordedSchedule.
  absl::Status Decide(TrainSession& session, RunReport* report);

 private:
  bool pending_;
};

}  // namespace sluice::tools
