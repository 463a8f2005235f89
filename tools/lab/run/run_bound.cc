#include "tools/lab/run/run_bound.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "runtime/sim/facts/machine_bound.h"
#include "sluice/tier.h"
#include "tools/lab/run/machine_flags.h"

namespace sluice::tools {
namespace {

/// Least share that is worth a word.
constexpr double kLeastShare = 0.0005;

analysis::TimeBound MovesOf(const Schedule& schedule, const sim::Machine& machine) {
  return analysis::ComputeTimeBound(schedule, sim::TimeBoundOptionsFor(machine, schedule));
}

sim::Machine WithMoreBytes(sim::Machine machine, std::size_t tier) {
  std::uint64_t& bytes = machine.tiers[tier].bytes;
  bytes += std::min(bytes / 10, UINT64_MAX - bytes);
  return machine;
}

sim::Machine WithMoreSpeed(sim::Machine machine, std::size_t link) {
  constexpr double kMore = 1.1;
  for (sim::MachinePath& path : machine.links[link].paths) {
    path.in_bytes_per_s *= kMore;
    path.out_bytes_per_s *= kMore;
    path.both_bytes_per_s *= kMore;
  }
  return machine;
}

}  // namespace

bool RunBound::ComputeBinds() const {
  return moves.binds == analysis::BoundKind::kCompute || moves.bound_s <= compute_s * (1 + 1e-12);
}

RunBound BoundRun(const Schedule& schedule, const sim::Machine& machine, double compute_s) {
  RunBound bound{.moves = MovesOf(schedule, machine)};
  bound.compute_s = std::max(compute_s, bound.moves.compute_s);
  bound.bound_s = std::max(bound.compute_s, bound.moves.bound_s);
  const auto add = [&](std::string name, const sim::Machine& other) {
    RunBound::Saving saving{.name = std::move(name)};
    if (!bound.ComputeBinds()) {
      const double least = std::max(bound.compute_s, MovesOf(schedule, other).bound_s);
      saving.share = std::max(0.0, 1 - least / bound.bound_s);
    }
    bound.savings.push_back(std::move(saving));
  };
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    add(std::string(ToString(machine.tiers[i].kind)), WithMoreBytes(machine, i));
  }
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    add(LinkName(machine, i), WithMoreSpeed(machine, i));
  }
  return bound;
}

std::string BindsName(const sim::Machine& machine, const RunBound& bound) {
  if (bound.ComputeBinds()) return "compute";
  return fmt::format("{} {}", LinkName(machine, bound.moves.link), ToString(bound.moves.binds));
}

std::string BindsSentence(const sim::Machine& machine, const RunBound& bound) {
  if (bound.ComputeBinds()) return "bound by compute";
  const bool windows = bound.moves.binds == analysis::BoundKind::kWindow;
  std::string text = fmt::format(
      "bound by {} ({})", LinkName(machine, bound.moves.link), windows ? "windows" : "volume");
  const auto best = std::max_element(
      bound.savings.begin(), bound.savings.end(), [](const auto& a, const auto& b) {
        return a.share < b.share;
      });
  if (best->share < kLeastShare) return text + "; +10 % of no tier or link alone would save much";
  return text + fmt::format("; +10 % {} would save {:.1f} %", best->name, best->share * 100);
}

}  // namespace sluice::tools
