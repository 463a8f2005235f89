#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/core/core.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/simulator.h"
#include "tools/lab/lab.h"
#include "tools/lab/load_schedule.h"
#include "tools/lab/run/run_flags.h"
#include "tools/lab/run/run_report.h"
#include "tools/lab/run/run_variants.h"
#include "tools/lab/sim_trace.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"

namespace sluice::tools {
namespace {

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

/// Runs a policy. A plan that is made to save traffic may move more in the end, as it does not
/// foresee pages in flight. The usual plan then stands in for it.
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

/// A variant under a policy.
struct VariantRun {
  const RunVariant* variant = nullptr;
  PolicyRun run;
};

/// The fastest of the variants that can run, or that which moves least; of equals the first.
absl::StatusOr<VariantRun> RunBest(const RunFlags& flags,
                                   std::span<const RunVariant> variants,
                                   const std::string& policy) {
  const auto cost = [&](const PolicyRun& run) {
    const bool traffic = flags.objective == core::Objective::kTraffic;
    return traffic ? static_cast<double>(BytesMoved(run)) : run.sim.time_s;
  };
  VariantRun best;
  absl::Status error;
  for (const RunVariant& variant : variants) {
    absl::StatusOr<PolicyRun> run = RunPolicy(flags, variant.layout, policy, nullptr);
    error.Update(run.status());
    if (!run.ok()) continue;
    if (best.variant == nullptr || cost(*run) < cost(best.run)) best = {&variant, *std::move(run)};
  }
  if (best.variant == nullptr) return error;
  return best;
}

/// The error of an output that was not written. It is no mistake of the user's, whatever the cause.
absl::Status OutputLost(const absl::Status& status) {
  return status.ok() ? status : absl::DataLossError(status.message());
}

/// Opens the timeline before the work, and completes it behind.
absl::StatusOr<VariantRun> RunTraced(const RunFlags& flags,
                                     std::span<const RunVariant> variants,
                                     absl::Status* trace_status) {
  const std::string& policy = flags.policies.front();
  const auto file = TraceFile::Create(flags.trace, TraceFile::Time());
  if (!file.ok()) return base::Annotate(file.status(), "--trace");
  VariantRun best{.variant = &variants.front()};
  if (variants.size() > 1) {
    SLUICE_ASSIGN_OR_RETURN(best, RunBest(flags, variants, policy));
  }
  SimTrace trace(best.variant->setting, best.variant->layout, file->get());
  SLUICE_ASSIGN_OR_RETURN(best.run, RunPolicy(flags, best.variant->layout, policy, &trace));
  *trace_status = OutputLost(base::Annotate((*file)->Finish(), "--trace"));
  return best;
}

absl::Status Run(const RunFlags& flags) {
  Console console(flags.mode);
  SLUICE_ASSIGN_OR_RETURN(sim::FileSchedule schedule, LoadSchedule(flags.path, flags.key));
  console.ShowProgress("bounds the time");
  SLUICE_ASSIGN_OR_RETURN(const RunVariants variants, MakeRunVariants(flags, std::move(schedule)));
  const RunSetting& first = variants.to_run().front().setting;
  absl::Status trace_status;
  for (std::size_t i = 0; i < flags.policies.size(); ++i) {
    console.ShowProgress("simulates " + flags.policies[i]);
    const absl::StatusOr<VariantRun> best =
        flags.trace.empty() ? RunBest(flags, variants.to_run(), flags.policies[i])
                            : RunTraced(flags, variants.to_run(), &trace_status);
    if (!best.ok()) return best.status();
    const RunSetting& setting = best->variant->setting;
    if (flags.mode == Console::Mode::kJson) {
      console.PrintJson(ToJsonLine(setting, best->run));
    } else {
      console.Print((i == 0 ? HeadText(first) : "") + ToText(setting, best->run));
    }
  }
  if (flags.mode == Console::Mode::kText) console.Print(TailText(first));
  SLUICE_RETURN_IF_ERROR(console.status());
  return trace_status;
}

}  // namespace

int RunLabRun(std::span<const std::string> words) {
  if (AsksForHelp(words)) {
    fmt::print("{}", RunHelpText());
    return kExitDone;
  }
  const absl::StatusOr<RunFlags> flags = ReadRunFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const absl::Status status = Run(*flags);
  return status.ok() ? kExitDone : Fail(status);
}

}  // namespace sluice::tools
