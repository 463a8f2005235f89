#include "runtime/sim/sim_meter.h"

#include <numeric>

namespace sluice::sim {
namespace {

std::vector<LinkUse> Used(const std::vector<LinkModel>& links) {
  std::vector<LinkUse> used;
  for (const LinkModel& link : links) {
    used.push_back({.in_bytes = link.bytes(core::Direction::kIn),
                    .out_bytes = link.bytes(core::Direction::kOut),
                    .busy_in_s = link.busy(core::Direction::kIn),
                    .busy_out_s = link.busy(core::Direction::kOut)});
  }
  return used;
}

/// Per iteration, of `count` of them.
LinkUse Mean(const LinkUse& from, const LinkUse& to, int count) {
  const auto n = static_cast<std::uint64_t>(count);
  return {.in_bytes = (to.in_bytes - from.in_bytes) / n,
          .out_bytes = (to.out_bytes - from.out_bytes) / n,
          .busy_in_s = (to.busy_in_s - from.busy_in_s) / count,
          .busy_out_s = (to.busy_out_s - from.busy_out_s) / count};
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

void SimMeter::EndIteration(double now, const std::vector<LinkModel>& links) {
  iteration_s_.push_back(now - begun_);
  used_.push_back(Used(links));
}

void SimMeter::CountStall(std::uint32_t op, double seconds) {
  op_stall_s_[op] = seconds;
  stall_s_.back() += seconds;
}

/// The second half; the first iteration, which is only recorded, is never among them.
int SimMeter::SteadyIterations() const { return options_.iterations / 2; }

SimReport SimMeter::Report(const core::Core& core) const {
  const int steady = SteadyIterations();
  const std::vector<LinkUse>& before = used_[used_.size() - static_cast<std::size_t>(steady) - 1];
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
    report.links.push_back(Mean(before[i], used_.back()[i], steady));
  }
  for (std::size_t i = 0; i < options_.machine.tiers.size(); ++i) {
    const core::TierCounters tier = core.tier(static_cast<core::TierIndex>(i));
    report.tiers.push_back({.budget_bytes = tier.frames * layout_.page_bytes,
                            .peak_bytes = tier.used_peak * layout_.page_bytes});
  }
  return report;
}

}  // namespace sluice::sim
