#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "runtime/sim/quoted.h"
#include "sluice/units.h"
#include "tools/lab/machine_flags.h"
#include "tools/lab/run_report.h"

namespace sluice::tools {
namespace {

std::string Size(std::uint64_t bytes) { return ToString(Bytes(bytes)); }

std::string Rate(double bytes_per_s) {
  return Size(static_cast<std::uint64_t>(bytes_per_s)) + "/s";
}

std::string Fact(std::string_view name, std::string_view text) {
  return fmt::format("  {:<14} {}\n", name, text);
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

}  // namespace

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = std::ceil(share * static_cast<double>(values.size()));
  return values[std::max<std::size_t>(1, static_cast<std::size_t>(place)) - 1];
}

std::string HeadText(const RunSetting& setting) {
  const sim::FileSchedule& schedule = setting.schedule;
  std::string text = sim::Printable(schedule.name);
  if (!schedule.key.empty()) text += fmt::format(", key {}", sim::Quoted(schedule.key));
  text += fmt::format(": {} ops, {} tensors, pages of {}\n",
                      schedule.ops.size(),
                      schedule.tensors.size(),
                      Size(setting.page_bytes));
  for (const sim::MachineTier& tier : setting.machine.tiers) {
    const bool limited = tier.bytes != sim::MachineTier::kUnlimited;
    text += Fact(ToString(tier.kind), limited ? Size(tier.bytes) : "as much as is needed");
  }
  for (std::size_t i = 0; i < setting.machine.links.size(); ++i) {
    const sim::MachineLink& link = setting.machine.links[i];
    std::string speed =
        fmt::format("in {}, out {}", Rate(link.in_bytes_per_s), Rate(link.out_bytes_per_s));
    if (link.both_bytes_per_s > 0) speed += ", both " + Rate(link.both_bytes_per_s);
    text += Fact(LinkName(setting.machine, i),
                 fmt::format("{}, latency {:g} us", speed, link.latency_s * 1e6));
  }
  return text + Fact("bound", fmt::format("{:.3f} s", setting.bound.bound_s));
}

std::string TailText(const RunSetting& setting) {
  return "\n" + BindsSentence(setting.machine, setting.bound) + "\n";
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
  text += Stalls(setting, sim);
  for (std::size_t i = 0; i < sim.links.size(); ++i) {
    const sim::LinkUse& link = sim.links[i];
    text += Fact(LinkName(setting.machine, i),
                 fmt::format("in {}, busy {:.0f} %; out {}, busy {:.0f} %",
                             Size(link.in_bytes),
                             Share(link.busy_in_s, sim.time_s) * 100,
                             Size(link.out_bytes),
                             Share(link.busy_out_s, sim.time_s) * 100));
  }
  for (std::size_t i = 0; i < sim.tiers.size(); ++i) {
    text += Fact(ToString(setting.machine.tiers[i].kind), "peak " + Size(sim.tiers[i].peak_bytes));
  }
  if (sim.plan_s > 0) text += Fact("planned in", fmt::format("{:.3f} s", sim.plan_s));
  text += Fact("simulated in",
               fmt::format("{:.2f} s, {:.2f} M page events/s",
                           report.wall_s,
                           Share(static_cast<double>(sim.page_events), report.wall_s) / 1e6));
  return text;
}

}  // namespace sluice::tools
