#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/core/core.h"
#include "runtime/sim/page_layout.h"
#include "runtime/sim/recorded_schedule.h"
#include "runtime/sim/simulator.h"
#include "tools/console.h"
#include "tools/exit_code.h"
#include "tools/lab/lab.h"
#include "tools/lab/load_schedule.h"
#include "tools/lab/run_bound.h"
#include "tools/lab/run_flags.h"
#include "tools/lab/run_report.h"
#include "tools/lab/sim_trace.h"

namespace sluice::tools {
namespace {

absl::StatusOr<sim::PageLayout> LayOutFor(const RunSetting& setting) {
  sim::LayoutOptions options{.page_bytes = setting.page_bytes};
  for (const sim::MachineTier& tier : setting.machine.tiers) options.tiers.push_back(tier.kind);
  return sim::LayOut(setting.schedule, options);
}

absl::StatusOr<PolicyRun> RunOnce(const RunFlags& flags,
                                  const sim::PageLayout& layout,
                                  const std::string& name,
                                  sim::SimObserver* observer) {
  sim::SimOptions options{.machine = flags.machine,
                          .iterations = flags.iterations,
                          .prefetch_ops = flags.prefetch_ops,
                          .objective = flags.objective,
                          .ask_ahead = flags.ask_ahead,
                          .observer = observer};
  SLUICE_ASSIGN_OR_RETURN(options.policy, core::CreatePolicy(name));
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<sim::SimReport> report = sim::Simulate(layout, options);
  if (!report.ok()) return base::Annotate(report.status(), flags.path);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  return PolicyRun{.policy = name, .sim = std::move(*report), .wall_s = wall.count()};
}

std::uint64_t BytesMoved(const PolicyRun& run) {
  std::uint64_t bytes = 0;
  for (const sim::LinkUse& link : run.sim.links) bytes += link.in_bytes + link.out_bytes;
  return bytes;
}

/// A plan that is made to save traffic may move more in the end, as what is in flight is not
/// foreseen; then the usual one does.
absl::StatusOr<PolicyRun> RunPolicy(const RunFlags& flags,
                                    const sim::PageLayout& layout,
                                    const std::string& name,
                                    sim::SimObserver* observer) {
  if (flags.objective == core::Objective::kTime) return RunOnce(flags, layout, name, observer);
  RunFlags usual = flags;
  usual.objective = core::Objective::kTime;
  SLUICE_ASSIGN_OR_RETURN(PolicyRun traffic, RunOnce(flags, layout, name, nullptr));
  SLUICE_ASSIGN_OR_RETURN(PolicyRun time, RunOnce(usual, layout, name, nullptr));
  const bool saves = BytesMoved(traffic) < BytesMoved(time);
  if (observer != nullptr) return RunOnce(saves ? flags : usual, layout, name, observer);
  return saves ? std::move(traffic) : std::move(time);
}

/// Opens the timeline before the work, and completes it behind.
absl::StatusOr<PolicyRun> RunTraced(const RunFlags& flags,
                                    const RunSetting& setting,
                                    const sim::PageLayout& layout,
                                    absl::Status* trace_status) {
  const std::string& policy = flags.policies.front();
  const auto file = TraceFile::Create(flags.trace, TraceFile::Time());
  if (!file.ok()) return base::Annotate(file.status(), "--trace");
  SimTrace trace(setting, layout, file->get());
  SLUICE_ASSIGN_OR_RETURN(PolicyRun report, RunPolicy(flags, layout, policy, &trace));
  *trace_status = base::Annotate((*file)->Finish(), "--trace");
  return report;
}

absl::Status Run(const RunFlags& flags) {
  Console console(flags.mode);
  RunSetting setting{.machine = flags.machine, .page_bytes = flags.page_bytes};
  SLUICE_ASSIGN_OR_RETURN(setting.schedule, LoadSchedule(flags.path, flags.key));
  const absl::StatusOr<sim::PageLayout> layout = LayOutFor(setting);
  if (!layout.ok()) return base::Annotate(layout.status(), flags.path);
  console.ShowProgress("bounds the time");
  setting.bound = BoundRun(sim::ToSchedule(setting.schedule, setting.page_bytes),
                           setting.machine,
                           sim::ComputeSeconds(*layout));
  absl::Status trace_status;
  for (std::size_t i = 0; i < flags.policies.size(); ++i) {
    console.ShowProgress("simulates " + flags.policies[i]);
    const absl::StatusOr<PolicyRun> report =
        flags.trace.empty() ? RunPolicy(flags, *layout, flags.policies[i], nullptr)
                            : RunTraced(flags, setting, *layout, &trace_status);
    if (!report.ok()) return report.status();
    if (flags.mode == Console::Mode::kJson) {
      console.PrintJson(ToJsonLine(setting, *report));
    } else {
      console.Print((i == 0 ? HeadText(setting) : "") + ToText(setting, *report));
    }
  }
  if (flags.mode == Console::Mode::kText) console.Print(TailText(setting));
  SLUICE_RETURN_IF_ERROR(console.status());
  return trace_status;
}

}  // namespace

int RunLabRun(std::span<const std::string> words) {
  if (std::any_of(words.begin(), words.end(), [](const std::string& word) {
        return word == "--help" || word == "-h";
      })) {
    fmt::print("{}", RunHelpText());
    return kExitDone;
  }
  const absl::StatusOr<RunFlags> flags = ReadRunFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const absl::Status status = Run(*flags);
  return status.ok() ? kExitDone : Fail(status);
}

}  // namespace sluice::tools
