#include "tools/lab/validate/validate_run.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/core/core.h"
#include "runtime/sim/files/schedule_reader.h"
#include "runtime/sim/files/schedule_writer.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/simulator.h"
#include "tools/support/median.h"
#include "tools/train/run/train_run.h"
#include "tools/train/run/train_session.h"

namespace sluice::tools {
namespace {

constexpr int kIterations = 8;

/// The schedule as `sluice lab run` would read it, but in one lane: the trainer runs its ops one
/// after another.
absl::StatusOr<sim::FileSchedule> InOneLane(const Schedule& recorded) {
  sim::ScheduleReader reader({.file = "the recorded schedule"});
  SLUICE_RETURN_IF_ERROR(sim::WriteRecorded(
      "train-gpt", recorded, [&](std::string_view line) { return reader.Append(line); }));
  SLUICE_ASSIGN_OR_RETURN(sim::FileSchedule schedule, reader.Finish());
  for (sim::FileOp& op : schedule.ops) {
    op.lane = "train";
    op.after.reset();
  }
  return schedule;
}

void ScaleTo(double seconds, sim::FileSchedule* schedule) {
  double sum = 0;
  for (const sim::FileOp& op : schedule->ops) sum += op.seconds;
  if (!(sum > 0)) return;
  for (sim::FileOp& op : schedule->ops) op.seconds *= seconds / sum;
}

sim::Machine MachineOf(const RuntimeOptions& runtime,
                       const std::map<std::string, LinkRates>& rates) {
  sim::Machine machine;
  machine.tiers = {{TierKind::kHbm, runtime.hbm_bytes.count()},
                   {TierKind::kDram, runtime.dram_bytes.count()},
                   {TierKind::kNvme, runtime.nvme_bytes.count()}};
  for (const char* const link : {kDeviceLink, kDiskLink}) {
    // Nothing crosses the link of nvme if there is none, whatever its rate.
    const LinkRates& rate = rates.contains(link) ? rates.at(link) : rates.at(kDeviceLink);
    machine.links.push_back({{{.in_bytes_per_s = rate.in,
                               .out_bytes_per_s = rate.out,
                               .both_bytes_per_s = rate.both}}});
  }
  return machine;
}

absl::StatusOr<sim::SimReport> SimulateRun(const TrainedRun& run,
                                           const TrainSettings& settings,
                                           double busy_s) {
  Schedule usual = run.schedule;
  run.op_times.SetMedian(&usual);
  SLUICE_ASSIGN_OR_RETURN(sim::FileSchedule schedule, InOneLane(usual));
  ScaleTo(busy_s, &schedule);
  sim::SimOptions options{.machine = MachineOf(settings.runtime, run.rates),
                          .iterations = kIterations,
                          .prefetch_ops = settings.runtime.prefetch_ops,
                          .ask_ahead = true};  // gpt::PagedMemory asks ahead, too
  SLUICE_ASSIGN_OR_RETURN(options.policy, core::CreatePolicy(settings.runtime.policy));
  sim::LayoutOptions layout_options{.page_bytes = settings.runtime.page_bytes.count()};
  for (const sim::MachineTier& tier : options.machine.tiers) {
    layout_options.tiers.push_back(tier.kind);
  }
  SLUICE_ASSIGN_OR_RETURN(const sim::PageLayout layout, sim::LayOut(schedule, layout_options));
  return sim::Simulate(layout, options);
}

}  // namespace

absl::StatusOr<TrainedRun> Train(const TrainFlags& flags,
                                 const gpt::Dataset& data,
                                 const InterruptWatch& watch) {
  Console quiet(Console::Mode::kJson);
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<TrainSession> session,
                          TrainSession::Create(flags, data, quiet, {}, {.stop = [&watch] {
                                                 return watch.interrupted();
                                               }}));
  SignalAnswer signals(*session, quiet, watch);
  TrainRun run({.session = *session, .console = quiet, .signals = signals});
  SLUICE_RETURN_IF_ERROR(run.Run());
  if (run.interrupted()) return absl::CancelledError("interrupted");
  TrainedRun trained{.report = run.TakeReport(),
                     .schedule = {},
                     .op_times = run.op_times(),
                     .rates = session->rates()};
  SLUICE_ASSIGN_OR_RETURN(trained.schedule,
                          session->runtime().RecordedSchedule(MainKey(trained.report)));
  return trained;
}

absl::StatusOr<ValidatedRun> Compare(const TrainedRun& run, const TrainSettings& settings) {
  const std::string key = MainKey(run.report);
  std::vector<double> seconds, stalls, busy;
  for (const StepRecord& step : run.report.steps) {
    if (!step.judged || step.key != key) continue;
    seconds.push_back(step.seconds);
    stalls.push_back(step.stall_seconds);
    busy.push_back(step.seconds - step.stall_seconds);
  }
  if (seconds.empty()) {
    return absl::FailedPreconditionError("no step to compare with; raise train.steps");
  }
  SLUICE_ASSIGN_OR_RETURN(const sim::SimReport sim, SimulateRun(run, settings, Median(busy)));
  return ValidatedRun{.hbm = settings.runtime.hbm_bytes,
                      .dram = settings.runtime.dram_bytes,
                      .policy = settings.runtime.policy,
                      .key = key,
                      .steps = static_cast<int>(seconds.size()),
                      .measured_step_s = Median(seconds),
                      .measured_stall_s = Median(stalls),
                      .predicted_step_s = sim.time_s,
                      .predicted_stall_s = std::max(0.0, sim.time_s - sim.compute_s)};
}

}  // namespace sluice::tools
