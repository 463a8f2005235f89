#include <algorithm>

#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/train/run_report.h"

namespace sluice::tools {
namespace {

std::string Size(std::uint64_t bytes) { return ToString(Bytes(bytes)); }

std::string Interrupted(const RunReport& report) {
  if (!report.interrupted) return "";
  const bool unverified = report.verify_wanted && !report.verify.has_value();
  return fmt::format("interrupted after {} of {} steps{}\n",
                     report.steps.size(),
                     report.steps_wanted,
                     unverified ? "; the verification was not made" : "");
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

std::string Times(const RunReport& report) {
  const auto judged = std::count_if(
      report.steps.begin(), report.steps.end(), [](const StepRecord& step) { return step.judged; });
  return fmt::format(
      "step time          {:.1f} ms median of {} of {} steps\n"
      "stalls             {:.1f} % of the time\n"
      "overlap            {:.0f} % of the shorter of compute and transfer is hidden\n",
      StepSecondsMedian(report) * 1e3,
      judged,
      report.steps.size(),
      StallFraction(report) * 100,
      OverlapEfficiency(report) * 100);
}

std::string Links(const RunReport& report) {
  std::string text;
  for (const auto& [name, total] : report.links) {
    const LinkBytes step = BytesPerStep(report, name);
    text += fmt::format("{:<18} {} in, {} out per step; {} in, {} out in all\n",
                        name,
                        Size(step.in),
                        Size(step.out),
                        Size(total.in),
                        Size(total.out));
    const auto bound = report.bounds.find(name);
    if (bound == report.bounds.end()) continue;
    text += fmt::format("  at least         {} in, {} out per step: {:.1f} ms\n",
                        Size(static_cast<std::uint64_t>(bound->second.bytes.in_bytes)),
                        Size(static_cast<std::uint64_t>(bound->second.bytes.out_bytes)),
                        bound->second.seconds * 1e3);
  }
  return text;
}

std::string Tiers(const RunReport& report) {
  std::string text;
  for (const auto& [name, tier] : report.tiers) {
    text +=
        fmt::format("{:<18} peak {} of {}", name, Size(tier.peak_bytes), Size(tier.budget_bytes));
    text += "; at the end of a step at most:";
    const char* separator = " ";
    for (int kind = 0; kind < kTensorKindCount; ++kind) {
      const std::uint64_t bytes = tier.by_kind[static_cast<std::size_t>(kind)];
      if (bytes == 0) continue;
      text +=
          fmt::format("{}{} {}", separator, ToString(static_cast<TensorKind>(kind)), Size(bytes));
      separator = ", ";
    }
    text += "\n";
  }
  return text;
}

std::string Memory(const RunReport& report) {
  return fmt::format(
      "tensors            {} live at most, {} padding\n"
      "peak memory        {}\n",
      Size(report.live_bytes),
      Size(report.padding_bytes),
      Size(report.peak_rss_bytes));
}

std::string Prefetches(const PrefetchStats& prefetch) {
  return fmt::format("prefetches         {} hit, {} late, {} revoked, {} wasted of {}\n",
                     prefetch.hit,
                     prefetch.late,
                     prefetch.revoked,
                     prefetch.wasted,
                     prefetch.issued);
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

std::string Verify(const VerifyReport& verify) {
  std::string text = verify.identical
                         ? "verify             identical to the run in RAM, bit for bit\n"
                         : fmt::format("verify             DIFFERENT: {}\n", verify.difference);
  return text +
         fmt::format(
             "slowdown           {:.3f}x of the run in RAM ({:.1f} ms a step, {:.1f} GFLOP/s; "
             "sgemm {:.1f})\n",
             verify.slowdown,
             verify.ram_step_ms_median,
             verify.ram_gflops,
             verify.sgemm_gflops);
}

}  // namespace

std::string FormatSummary(const RunReport& report) {
  const std::string interrupted = Interrupted(report);
  if (report.steps.empty()) return interrupted + "no step was made\n";
  std::string text = interrupted + Losses(report) + Times(report) + Links(report) + Tiers(report) +
                     Memory(report) + Prefetches(report.prefetch) + Fallbacks(report);
  if (report.verify.has_value()) text += Verify(*report.verify);
  return text + WhatBinds(report) + "\n";
}

}  // namespace sluice::tools
