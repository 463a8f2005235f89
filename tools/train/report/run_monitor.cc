#include "tools/train/report/run_monitor.h"

#include <algorithm>

#include "base/check.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

/// Interval between two readings of the counters in a trace.
constexpr std::chrono::milliseconds kCounterInterval{2};

std::map<std::string, LinkBytes> BytesOf(const Stats& stats) {
  std::map<std::string, LinkBytes> bytes;
  for (const auto& [name, link] : stats.links) bytes[name] = {link.in.bytes, link.out.bytes};
  return bytes;
}

}  // namespace

RunMonitor::RunMonitor(const Runtime& runtime, TraceFile* trace, MemorySampler& memory)
    : runtime_(runtime), trace_(trace), memory_(memory) {}

void RunMonitor::BeginStep() { before_ = runtime_.GetStats(); }

StepRecord RunMonitor::EndStep(int step,
                               const gpt::StepResult& result,
                               const StepOutcome& outcome) {
  const Stats stats = runtime_.GetStats();
  memory_.Sample();
  CheckBudgets(stats);
  StepRecord record{.step = step,
                    .kind = result.kind,
                    .key = result.key,
                    .loss = outcome.loss,
                    .seconds = outcome.seconds,
                    .stall_seconds = result.stall_seconds,
                    .links = BytesOf(stats)};
  for (auto& [name, bytes] : record.links) {
    bytes.in -= before_.links[name].in.bytes;
    bytes.out -= before_.links[name].out.bytes;
  }
  return record;
}

void RunMonitor::CheckBudgets(const Stats& stats) {
  for (const auto& [name, tier] : stats.tiers) {
    const std::string explanation =
        fmt::format("budgets are hard: {} held {} bytes, its budget is {}",
                    name,
                    tier.peak_bytes,
                    tier.budget_bytes);
    SLUICE_CHECK(tier.peak_bytes <= tier.budget_bytes, explanation.c_str());
    TierReport& report = tiers_[name];
    report.budget_bytes = tier.budget_bytes;
    report.peak_bytes = tier.peak_bytes;
    for (std::size_t kind = 0; kind < tier.by_kind.size(); ++kind) {
      report.by_kind[kind] = std::max(report.by_kind[kind], tier.by_kind[kind]);
    }
  }
}

void RunMonitor::OnOp(const gpt::OpTiming& timing) {
  if (trace_ == nullptr) return;
  trace_->Add({.track = "compute", .name = timing.name, .begin = timing.begin, .end = timing.end});
  if (timing.end - counters_at_ < kCounterInterval) return;
  counters_at_ = timing.end;
  std::map<std::string, std::uint64_t> used;
  for (const auto& [name, tier] : runtime_.GetStats().tiers) used[name] = tier.used_bytes;
  trace_->AddCounters("resident bytes", timing.end, used);
}

void RunMonitor::Fill(RunReport* report) {
  const Stats stats = runtime_.GetStats();
  CheckBudgets(stats);
  report->links = BytesOf(stats);
  report->tiers = tiers_;
  report->peak_rss_bytes = memory_.Sample();
  report->live_bytes = stats.live_bytes_peak;
  report->padding_bytes = stats.padding_bytes;
  report->retired_places = stats.io.retired;
  report->fallbacks = stats.fallbacks;
  report->prefetch = stats.prefetch;
  report->plans = stats.plans;
  report->divergences = stats.schedule_divergences;
}

}  // namespace sluice::tools
