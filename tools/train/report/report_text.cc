#include <algorithm>

#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/support/wrap.h"
#include "tools/train/report/run_report.h"

namespace sluice::tools {
namespace {

std::string Interrupted(const RunReport& report) {
  if (!report.interrupted) return "";
  const bool unverified = report.verify_wanted && !report.verify.has_value();
  return fmt::format(
      "interrupted after {} of {} steps{}{}\n",
      static_cast<std::size_t>(report.steps_before) + report.steps.size(),
      report.steps_wanted,
      report.steps_before > 0 ? fmt::format(", {} in this run", report.steps.size()) : "",
      unverified ? "; the verification was not made" : "");
}

/// Steps of a run that went on from a save; empty for another run.
std::string StepsOfThisRun(const RunReport& report) {
  if (report.steps_before == 0) return "";
  return fmt::format("steps              {} to {} of {}, {} in this run\n",
                     report.steps.front().step,
                     report.steps.back().step,
                     report.steps_wanted,
                     report.steps.size());
}

std::string Losses(const RunReport& report) {
  std::string text = fmt::format(
      "loss               {:.4f} -> {:.4f}\n", report.steps.front().loss, report.steps.back().loss);
  if (report.val_loss_first.has_value() && report.val_loss.has_value()) {
    text += fmt::format(
        "validation loss    {:.4f} -> {:.4f}\n", *report.val_loss_first, *report.val_loss);
  }
  return text;
}

std::string OverBound(const RunReport& report) {
  const std::optional<double> ratio = TimeOverBound(report);
  if (!ratio.has_value()) return "";
  return fmt::format(
      "\nbound              {:.1f} ms for the ops of \"{}\" in their order; its steps take "
      "{:.2f}x of that",
      report.bound_seconds * 1e3,
      MainKey(report),
      *ratio);
}

std::string Times(const RunReport& report) {
  const auto judged = std::count_if(
      report.steps.begin(), report.steps.end(), [](const StepRecord& step) { return step.judged; });
  return fmt::format(
      "step time          {:.1f} ms median of {} of {} steps{}\n"
      "stalls             {:.1f} % of the time\n",
      StepSecondsMedian(report) * 1e3,
      judged,
      report.steps.size(),
      OverBound(report),
      StallFraction(report) * 100);
}

std::string Links(const RunReport& report) {
  std::string text;
  for (const auto& [name, total] : report.links) {
    const LinkBytes step = BytesPerStep(report, name);
    text += fmt::format("{:<18} {} in, {} out per step; {} in, {} out in all\n",
                        name,
                        ToString(Bytes(step.in)),
                        ToString(Bytes(step.out)),
                        ToString(Bytes(total.in)),
                        ToString(Bytes(total.out)));
    const auto bound = report.bounds.find(name);
    if (bound == report.bounds.end()) continue;
    text += fmt::format("  at least         {} in, {} out per step: {:.1f} ms\n",
                        ToString(Bytes(static_cast<std::uint64_t>(bound->second.bytes.in_bytes))),
                        ToString(Bytes(static_cast<std::uint64_t>(bound->second.bytes.out_bytes))),
                        bound->second.seconds * 1e3);
  }
  return text;
}

std::string Tiers(const RunReport& report) {
  std::string text;
  for (const auto& [name, tier] : report.tiers) {
    text += fmt::format("{:<18} peak {} of {}\n",
                        name,
                        ToString(Bytes(tier.peak_bytes)),
                        ToString(Bytes(tier.budget_bytes)));
    const char* separator = "  most at a step's end  ";
    bool any = false;
    for (int kind = 0; kind < kTensorKindCount; ++kind) {
      const std::uint64_t bytes = tier.by_kind[static_cast<std::size_t>(kind)];
      if (bytes == 0) continue;
      text += fmt::format(
          "{}{} {}", separator, ToString(static_cast<TensorKind>(kind)), ToString(Bytes(bytes)));
      separator = ", ";
      any = true;
    }
    if (any) text += "\n";
  }
  return text;
}

std::string Memory(const RunReport& report) {
  return fmt::format(
      "tensors            {} live at most, {} padding\n"
      "peak memory        {}\n",
      ToString(Bytes(report.live_bytes)),
      ToString(Bytes(report.padding_bytes)),
      ToString(Bytes(report.peak_rss_bytes)));
}

std::string Prefetches(const PrefetchStats& prefetch) {
  return fmt::format("prefetches         {} hit, {} late, {} revoked, {} wasted of {}\n",
                     prefetch.hit,
                     prefetch.late,
                     prefetch.revoked,
                     prefetch.wasted,
                     prefetch.issued);
}

std::string Plans(const RunReport& report) {
  return fmt::format("plans              {} made, in {:.1f} ms; {} divergence{} from a schedule\n",
                     report.plans.made,
                     report.plans.seconds * 1e3,
                     report.divergences,
                     report.divergences == 1 ? "" : "s");
}

std::string RetiredPlaces(const RunReport& report) {
  if (report.retired_places == 0) return "";
  return fmt::format("retired            {} place{} of nvme lost a page and {} used no more\n",
                     report.retired_places,
                     report.retired_places == 1 ? "" : "s",
                     report.retired_places == 1 ? "is" : "are");
}

std::string Fallbacks(const RunReport& report) {
  if (report.fallbacks.empty()) return "fallbacks          none\n";
  std::string text;
  for (const FallbackEvent& fallback : report.fallbacks) {
    text += fmt::format(
        "fallback           {}: {} ({})\n", fallback.what, fallback.chosen, fallback.reason);
  }
  return text;
}

std::string Products(const RunReport& report) {
  if (!report.compute.has_value()) return "";
  return fmt::format("matrix products    {}\n", gpt::Describe(*report.compute));
}

std::string Recomputed(const RunReport& report) {
  if (!report.recompute.has_value()) return "";
  return fmt::format("recompute          {}\n", FormatRecompute(*report.recompute));
}

std::string Verify(const VerifyReport& verify) {
  std::string text = verify.identical
                         ? "verify             identical to the run in RAM, bit for bit\n"
                         : fmt::format("verify             DIFFERENT: {}\n", verify.difference);
  return text + fmt::format(
                    "slowdown           {:.3f}x of the run in RAM ({:.1f} ms a step, {:.1f} "
                    "GFLOP/s)\n",
                    verify.slowdown,
                    verify.ram_step_ms_median,
                    verify.ram_gflops);
}

}  // namespace

std::string FormatRecompute(const RecomputeReport& recompute) {
  const auto busiest = std::max_element(
      recompute.links.begin(), recompute.links.end(), [](const auto& a, const auto& b) {
        return a.second.first < b.second.first;
      });
  std::string text = fmt::format("{} layers kept, {} offloaded, {} recomputed",
                                 recompute.layers_kept,
                                 recompute.layers_offloaded,
                                 recompute.layers_recomputed);
  if (busiest == recompute.links.end()) return text;
  const auto& [link, seconds] = *busiest;
  text += fmt::format(": of a step that computes {:.1f} ms, {} takes {:.1f} ms",
                      recompute.compute_seconds * 1e3,
                      link,
                      seconds.first * 1e3);
  if (recompute.layers_recomputed == 0) return text;
  return text + fmt::format("; so {:.1f} ms, for {:.1f} ms in all instead of {:.1f}",
                            seconds.second * 1e3,
                            recompute.seconds * 1e3,
                            recompute.seconds_without * 1e3);
}

std::string FormatSummary(const RunReport& report) {
  const std::string interrupted = Interrupted(report);
  if (report.steps.empty()) return interrupted + "no step was made\n";
  std::string text = interrupted + StepsOfThisRun(report) + Losses(report) + Times(report) +
                     Links(report) + Tiers(report) + Memory(report) + Prefetches(report.prefetch) +
                     Plans(report) + Products(report) + Recomputed(report) + RetiredPlaces(report) +
                     Fallbacks(report);
  if (report.verify.has_value()) text += Verify(*report.verify);
  // Values begin in the column of their label.
  return WrapLines(text, 19) + WrapLines(WhatBinds(report) + "\n", 0);
}

}  // namespace sluice::tools
