#include "runtime/analysis/recompute/recompute_problem.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace sluice::analysis {
namespace {

/// The schedule if all of them were away while idle, at no cost.
Schedule WithoutIdle(Schedule schedule, std::span<const Recomputable> tensors) {
  for (const Recomputable& one : tensors) {
    schedule.ops[one.last_use].discards.push_back(
        {one.tensor, kWholeTensor, AccessMode::kOverwrite, {}});
  }
  return schedule;
}

/// Options of a bound for the tiers above a link together, in whole pages.
BoundOptions BoundAbove(std::size_t link,
                        std::uint64_t page_bytes,
                        const TimeBoundOptions& machine) {
  BoundOptions options{.lowest_above = machine.tiers[link],
                       .iterations_max = machine.iterations_max};
  for (std::size_t tier = 0; tier <= link; ++tier) {
    const std::uint64_t bytes = machine.tier_bytes[tier] / page_bytes * page_bytes;
    options.bytes_above += std::min(bytes, UINT64_MAX - options.bytes_above);
  }
  return options;
}

double PerByte(double bytes_per_s) { return bytes_per_s > 0 ? 1 / bytes_per_s : 0; }

}  // namespace

RecomputeLink MakeRecomputeLink(const BoundLink& rates,
                                const BoundBytes& with,
                                const BoundBytes& without) {
  const double in = with.in_bytes - without.in_bytes;
  const double out = with.out_bytes - without.out_bytes;
  return {.in_seconds = PerByte(rates.in_bytes_per_s),
          .out_seconds = PerByte(rates.out_bytes_per_s),
          .both_seconds = PerByte(rates.half ? rates.in_bytes_per_s : rates.both_bytes_per_s),
          .in_bytes = without.in_bytes,
          .out_bytes = without.out_bytes,
          .excess_bytes = std::max(0.0, (in + out) / 2)};
}

RecomputeProblem MakeRecomputeProblem(const Schedule& schedule,
                                      std::span<const Recomputable> tensors,
                                      const TimeBoundOptions& machine) {
  const LaneTimes times = FindLaneTimes(schedule);
  RecomputeProblem problem;
  for (const Recomputable& one : tensors) {
    problem.candidates.push_back({.bytes = one.bytes,
                                  .recompute_seconds = one.recompute_seconds,
                                  .idle_seconds = one.idle_seconds});
    problem.write_seconds = std::max(problem.write_seconds, times.end[one.writer]);
  }
  for (const double end : times.end) {
    problem.read_seconds = std::max(problem.read_seconds, end - problem.write_seconds);
  }
  const Schedule without = WithoutIdle(schedule, tensors);
  for (std::size_t link = 0; link < machine.links.size(); ++link) {
    const BoundOptions above = BoundAbove(link, schedule.page_bytes, machine);
    problem.links.push_back(MakeRecomputeLink(
        machine.links[link], ComputeLinkBound(schedule, above), ComputeLinkBound(without, above)));
  }
  return problem;
}

}  // namespace sluice::analysis
