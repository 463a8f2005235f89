#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "runtime/sim/files/quoted.h"
#include "sluice/units.h"
#include "tools/lab/run/machine_flags.h"
#include "tools/lab/run/run_report.h"

namespace sluice::tools {
namespace {

std::string Rate(double bytes_per_s) {
  return ToString(Bytes(static_cast<std::uint64_t>(bytes_per_s))) + "/s";
}

std::string Fact(std::string_view name, std::string_view text) {
  return fmt::format("  {:<14} {}\n", name, text);
}

std::string Speed(const sim::MachinePath& path) {
  std::string text =
      fmt::format("in {}, out {}", Rate(path.in_bytes_per_s), Rate(path.out_bytes_per_s));
  if (path.both_bytes_per_s > 0) text += ", both " + Rate(path.both_bytes_per_s);
  return text + fmt::format(", latency {:g} us", path.latency_s * 1e6);
}

std::string Use(const sim::PathUse& use, double time_s) {
  return fmt::format("in {}, busy {:.0f} %; out {}, busy {:.0f} %",
                     ToString(Bytes(use.in_bytes)),
                     Share(use.busy_in_s, time_s) * 100,
                     ToString(Bytes(use.out_bytes)),
                     Share(use.busy_out_s, time_s) * 100);
}

/// A fact of each path, where there are several.
template <typename Path, typename Text>
std::string PathFacts(const std::vector<Path>& paths, const Text& text_of) {
  std::string text;
  if (paths.size() < 2) return text;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    text += Fact(fmt::format("  path {}", i + 1), text_of(paths[i]));
  }
  return text;
}

/// Text about a tier, with the share of pages that come back to the frame that their address is
/// mapped to.
std::string TierText(const sim::TierUse& tier) {
  std::string text = "peak " + ToString(Bytes(tier.peak_bytes));
  if (tier.mappings.again == 0) return text;
  const double share =
      Share(static_cast<double>(tier.mappings.in_place), static_cast<double>(tier.mappings.again));
  return text + fmt::format("; {:.1f} % of pages come back to their frame", share * 100);
}

std::string Stalls(const RunSetting& setting, const sim::SimReport& sim) {
  const auto worst = std::max_element(sim.op_stall_s.begin(), sim.op_stall_s.end());
  if (worst == sim.op_stall_s.end() || *worst == 0) return Fact("stall", "none");
  const sim::FileOp& op =
      setting.schedule.ops[static_cast<std::size_t>(worst - sim.op_stall_s.begin())];
  return Fact("stall",
              fmt::format("{:.3f} s; by op p50 {:.3f} ms, p99 {:.3f} ms, max {:.3f} ms (op {} {})",
                          sim.stall_s,
                          Quantile(sim.op_stall_s, 0.5) * 1e3,
                          Quantile(sim.op_stall_s, 0.99) * 1e3,
                          *worst * 1e3,
                          op.id,
                          sim::Printable(op.name)));
}

std::string Recomputed(const RunSetting& setting) {
  const RecomputeUse& use = *setting.recompute;
  const auto describe = [](const char* name, const RecomputeUse::Part& part) {
    return fmt::format("{} {} ({})", part.tensors, name, ToString(Bytes(part.bytes)));
  };
  std::string text = Fact("recompute",
                          fmt::format("{}: {}, {}, {} in {:.3f} s",
                                      use.taken,
                                      describe("kept", use.kept),
                                      describe("offloaded", use.offloaded),
                                      describe("made again", use.recomputed),
                                      use.recompute_s));
  if (use.recomputed.tensors == 0) return text;
  return text + Fact("bound",
                     fmt::format("{:.3f} s, {}",
                                 setting.bound.bound_s,
                                 BindsSentence(setting.machine, setting.bound)));
}

/// A line that says that iterations still differ; empty if the last ones are alike.
std::string Settled(const sim::SimReport& sim) {
  constexpr double kAlike = 0.005;
  const std::optional<double> change = LastChange(sim);
  if (!change.has_value() || std::abs(*change) <= kAlike) return "";
  return Fact("not settled",
              fmt::format("the last iteration took {:.1f} % {} than the one before; try more "
                          "--iterations",
                          std::abs(*change) * 100,
                          *change < 0 ? "less" : "more"));
}

}  // namespace

std::optional<double> LastChange(const sim::SimReport& sim) {
  const std::size_t n = sim.iteration_s.size();
  if (n < 2 || sim.iteration_s[n - 2] <= 0) return std::nullopt;
  return sim.iteration_s[n - 1] / sim.iteration_s[n - 2] - 1;
}

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = std::ceil(share * static_cast<double>(values.size()));
  return values[std::max<std::size_t>(1, static_cast<std::size_t>(place)) - 1];
}

/// Text about a schedule that is one of several. It stands behind the other facts.
std::string WhatIsMade(const RunSetting& setting) {
  if (!setting.recompute.has_value()) return "";
  return setting.recompute->taken == "all" ? " (with all made again)"
                                           : " (with nothing made again)";
}

std::string HeadText(const RunSetting& setting) {
  const sim::FileSchedule& schedule = setting.schedule;
  std::string text = sim::Printable(schedule.name);
  if (!schedule.key.empty()) text += fmt::format(", key {}", sim::Quoted(schedule.key));
  text += fmt::format(": {} ops, {} tensors, pages of {}\n",
                      schedule.ops.size(),
                      schedule.tensors.size(),
                      ToString(Bytes(setting.page_bytes)));
  for (const sim::MachineTier& tier : setting.machine.tiers) {
    const bool limited = tier.bytes != sim::MachineTier::kUnlimited;
    text +=
        Fact(ToString(tier.kind), limited ? ToString(Bytes(tier.bytes)) : "as much as is needed");
  }
  for (std::size_t i = 0; i < setting.machine.links.size(); ++i) {
    const sim::MachineLink& link = setting.machine.links[i];
    text += Fact(LinkName(setting.machine, i), Speed(sim::Together(link)));
    text += PathFacts(link.paths, Speed);
  }
  return text +
         Fact("bound", fmt::format("{:.3f} s{}", setting.bound.bound_s, WhatIsMade(setting)));
}

std::string TailText(const RunSetting& setting) {
  return fmt::format(
      "\n{}{}\n", BindsSentence(setting.machine, setting.bound), WhatIsMade(setting));
}

std::string ToText(const RunSetting& setting, const PolicyRun& report) {
  const sim::SimReport& sim = report.sim;
  std::string text = fmt::format("\n{}: {:.3f} s", report.policy, sim.time_s);
  if (sim.compute_s > 0) {
    text += fmt::format(", {:.4f} x compute ({:.3f} s)", sim.time_s / sim.compute_s, sim.compute_s);
  }
  if (setting.bound.bound_s > 0) {
    text += fmt::format(", {:.3f} x bound", sim.time_s / setting.bound.bound_s);
  }
  text += '\n';
  text += Settled(sim);
  if (setting.recompute.has_value()) text += Recomputed(setting);
  text += Stalls(setting, sim);
  for (std::size_t i = 0; i < sim.links.size(); ++i) {
    const sim::LinkUse& link = sim.links[i];
    const auto text_of = [&](const sim::PathUse& use) { return Use(use, sim.time_s); };
    text += Fact(LinkName(setting.machine, i), text_of(link)) + PathFacts(link.paths, text_of);
  }
  for (std::size_t i = 0; i < sim.tiers.size(); ++i) {
    text += Fact(ToString(setting.machine.tiers[i].kind), TierText(sim.tiers[i]));
  }
  if (sim.plan_s > 0) text += Fact("planned in", fmt::format("{:.3f} s", sim.plan_s));
  text += Fact("simulated in",
               fmt::format("{:.2f} s, {:.2f} M page events/s",
                           report.wall_s,
                           Share(static_cast<double>(sim.page_events), report.wall_s) / 1e6));
  return text;
}

}  // namespace sluice::tools
