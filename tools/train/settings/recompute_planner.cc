#include "tools/train/settings/recompute_planner.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/analysis/recompute/recompute_problem.h"
#include "tools/support/median.h"
#include "workloads/gpt/training/layer_costs.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::tools {
namespace {

/// A plan that saves a smaller share of the step is not worth a change.
constexpr double kGainMin = 0.02;

constexpr const char* kLinks[] = {kDeviceLink, kDiskLink};

/// Flag for each tensor that recomputing layers would discard.
std::vector<bool> StashOf(const std::vector<gpt::LayerCosts>& layers, std::size_t tensors) {
  std::vector<bool> stash(tensors);
  for (const gpt::LayerCosts& layer : layers) {
    for (const std::uint32_t tensor : layer.tensors) stash[tensor] = true;
  }
  return stash;
}

/// The schedule without these tensors.
Schedule Without(const std::vector<bool>& tensors, Schedule schedule) {
  const auto gone = [&](const ScheduleAccess& access) { return bool{tensors[access.tensor]}; };
  for (ScheduleOp& op : schedule.ops) {
    std::erase_if(op.accesses, gone);
    std::erase_if(op.discards, gone);
  }
  return schedule;
}

/// Time at which the last op ends that writes one of these tensors.
double EndOfWrites(const std::vector<bool>& tensors, const Schedule& schedule) {
  double now = 0, end = 0;
  for (const ScheduleOp& op : schedule.ops) {
    if (op.lane != gpt::kUpdateLane) now += op.seconds;
    for (const ScheduleAccess& access : op.accesses) {
      if (tensors[access.tensor] && access.mode != AccessMode::kRead) end = now;
    }
  }
  return end;
}

/// Median seconds of compute in the steps that the schedule stands for.
double ComputeSeconds(const RunReport& report, const std::string& key) {
  std::vector<double> seconds;
  for (const StepRecord& step : report.steps) {
    if (step.key == key) seconds.push_back(step.seconds - step.stall_seconds);
  }
  return Median(std::move(seconds));
}

}  // namespace

analysis::RecomputeProblem MakeRecomputeProblem(const TrainSettings& settings,
                                                const Schedule& schedule,
                                                double compute_seconds,
                                                const std::map<std::string, LinkRates>& rates) {
  const std::vector<gpt::LayerCosts> layers =
      gpt::FindLayerCosts(settings.model, settings.train, schedule);
  const std::vector<bool> stash = StashOf(layers, schedule.tensors.size());
  double recorded = 0;
  for (const ScheduleOp& op : schedule.ops) {
    if (op.lane != gpt::kUpdateLane) recorded += op.seconds;
  }
  const double scale = recorded > 0 ? compute_seconds / recorded : 0;
  analysis::RecomputeProblem problem{.write_seconds = scale * EndOfWrites(stash, schedule)};
  problem.read_seconds = compute_seconds - problem.write_seconds;
  for (const gpt::LayerCosts& layer : layers) {
    problem.candidates.push_back({.bytes = layer.bytes,
                                  .recompute_seconds = scale * layer.recompute_seconds,
                                  .idle_seconds = scale * layer.idle_seconds});
  }
  const LinkBounds with_stash = ComputeLinkBounds(schedule, settings.runtime);
  const LinkBounds without = ComputeLinkBounds(Without(stash, schedule), settings.runtime);
  for (const std::string& link : LinksOf(settings.runtime)) {
    const LinkRates& rate = rates.at(link);
    problem.links.push_back(analysis::MakeRecomputeLink(
        {.in_bytes_per_s = rate.in, .out_bytes_per_s = rate.out, .both_bytes_per_s = rate.both},
        with_stash.at(link).bytes,
        without.at(link).bytes));
  }
  return problem;
}

RecomputeReport DecideRecompute(const analysis::RecomputeProblem& problem) {
  const analysis::RecomputePlan kept = analysis::PlanUniform(problem, analysis::Relief::kOffload);
  analysis::RecomputePlan plan = analysis::PlanRecompute(problem);
  if (plan.seconds > (1 - kGainMin) * kept.seconds) plan = kept;
  RecomputeReport report{.compute_seconds = problem.write_seconds + problem.read_seconds,
                         .seconds_without = kept.seconds,
                         .seconds = plan.seconds};
  for (const analysis::Relief relief : plan.reliefs) {
    report.choice.push_back(relief == analysis::Relief::kRecompute);
    if (relief == analysis::Relief::kKeep) ++report.layers_kept;
    if (relief == analysis::Relief::kOffload) ++report.layers_offloaded;
    if (relief == analysis::Relief::kRecompute) ++report.layers_recomputed;
  }
  for (std::size_t i = 0; i < problem.links.size(); ++i) {
    report.links[kLinks[i]] = {kept.link_seconds[i], plan.link_seconds[i]};
  }
  return report;
}

absl::Status RecomputePlanner::Decide(TrainSession& session, RunReport* report) {
  pending_ = false;
  const std::string key = MainKey(*report);
  const absl::StatusOr<Schedule> recorded = session.runtime().RecordedSchedule(key);
  if (!recorded.ok()) return base::Annotate(recorded.status(), "train.recompute = \"planned\"");
  const Schedule& schedule = *recorded;
  RecomputeReport decided = DecideRecompute(MakeRecomputeProblem(
      session.settings(), schedule, ComputeSeconds(*report, key), session.rates()));
  SLUICE_RETURN_IF_ERROR(session.trainer().SetRecompute(decided.choice));
  if (decided.layers_recomputed > 0) {
    for (StepRecord& step : report->steps) step.judged = false;
  }
  report->recompute = std::move(decided);
  return absl::OkStatus();
}

}  // namespace sluice::tools
