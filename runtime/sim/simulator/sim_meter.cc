#include "runtime/sim/simulator/sim_meter.h"

#include <numeric>

namespace sluice::sim {
namespace {

PathUse UseOf(const PathModel& path) {
  return {.in_bytes = path.bytes(core::LinkDirection::kIn),
          .out_bytes = path.bytes(core::LinkDirection::kOut),
          .busy_in_s = path.busy(core::LinkDirection::kIn),
          .busy_out_s = path.busy(core::LinkDirection::kOut)};
}

LinkUse UseOf(const LinkModel& link, const MachineLink& machine_link) {
  const MachinePath all = Together(machine_link);
  LinkUse sum;
  for (std::size_t i = 0; i < machine_link.paths.size(); ++i) {
    const PathUse use = UseOf(link.paths()[i]);
    const MachinePath& rates = machine_link.paths[i];
    sum.in_bytes += use.in_bytes;
    sum.out_bytes += use.out_bytes;
    sum.busy_in_s += use.busy_in_s * (rates.in_bytes_per_s / all.in_bytes_per_s);
    sum.busy_out_s += use.busy_out_s * (rates.out_bytes_per_s / all.out_bytes_per_s);
    sum.paths.push_back(use);
  }
  return sum;
}

/// The use of a path per iteration, over `count` of them.
PathUse Mean(const PathUse& from, const PathUse& to, int count) {
  const auto n = static_cast<std::uint64_t>(count);
  return {.in_bytes = (to.in_bytes - from.in_bytes) / n,
          .out_bytes = (to.out_bytes - from.out_bytes) / n,
          .busy_in_s = (to.busy_in_s - from.busy_in_s) / count,
          .busy_out_s = (to.busy_out_s - from.busy_out_s) / count};
}

LinkUse MeanOfLink(const LinkUse& from, const LinkUse& to, int count) {
  LinkUse mean{Mean(from, to, count), {}};
  for (std::size_t i = 0; i < from.paths.size(); ++i) {
    mean.paths.push_back(Mean(from.paths[i], to.paths[i], count));
  }
  return mean;
}

core::MappingCounters Since(const core::MappingCounters& from, const core::MappingCounters& to) {
  return {.first = to.first - from.first,
          .again = to.again - from.again,
          .in_place = to.in_place - from.in_place};
}

double MeanOfLast(const std::vector<double>& values, int count) {
  return std::accumulate(values.end() - count, values.end(), 0.0) / count;
}

}  // namespace

void SimMeter::BeginIteration(double now) {
  begun_ = now;
  stall_s_.push_back(0);
  op_stall_s_.assign(op_stall_s_.size(), 0);
}

void SimMeter::EndIteration(double now,
                            const std::vector<LinkModel>& links,
                            const core::Core& core) {
  iteration_s_.push_back(now - begun_);
  used_.emplace_back();
  for (std::size_t i = 0; i < links.size(); ++i) {
    used_.back().push_back(UseOf(links[i], options_.machine.links[i]));
  }
  mapped_.emplace_back();
  for (std::size_t i = 0; i < options_.machine.tiers.size(); ++i) {
    mapped_.back().push_back(core.tier(static_cast<core::TierIndex>(i)).mappings);
  }
}

void SimMeter::CountStall(std::uint32_t op, double seconds) {
  op_stall_s_[op] = seconds;
  stall_s_.back() += seconds;
}

/// The second half; the first iteration, which is only recorded, is never among them.
int SimMeter::SteadyIterations() const { return options_.iterations / 2; }

SimReport SimMeter::Report(const core::Core& core) const {
  const int steady = SteadyIterations();
  const std::size_t begin = used_.size() - static_cast<std::size_t>(steady) - 1;
  const std::vector<LinkUse>& before = used_[begin];
  SimReport report{.time_s = MeanOfLast(iteration_s_, steady),
                   .compute_s = ComputeSeconds(layout_),
                   .stall_s = MeanOfLast(stall_s_, steady),
                   .op_stall_s = op_stall_s_,
                   .iteration_s = iteration_s_,
                   .links = {},
                   .tiers = {},
                   .counters = core.counters(),
                   .plan_s = plan_s_,
                   .page_events = page_events_,
                   .ops_failed = ops_failed_};
  for (std::size_t i = 0; i < before.size(); ++i) {
    report.links.push_back(MeanOfLink(before[i], used_.back()[i], steady));
  }
  for (std::size_t i = 0; i < options_.machine.tiers.size(); ++i) {
    const core::TierCounters tier = core.tier(static_cast<core::TierIndex>(i));
    report.tiers.push_back({.budget_bytes = tier.frames * layout_.page_bytes,
                            .peak_bytes = tier.used_peak * layout_.page_bytes,
                            .mappings = Since(mapped_[begin][i], mapped_.back()[i])});
  }
  return report;
}

}  // namespace sluice::sim
