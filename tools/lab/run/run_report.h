#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/sim/schedule/file_schedule.h"
#include "runtime/sim/simulator/machine.h"
#include "runtime/sim/simulator/simulator.h"
#include "tools/lab/run/run_bound.h"

namespace sluice::tools {

/// Results of one policy in `sluice lab run`.
struct PolicyRun {
  std::string policy;
  sim::SimReport sim;
  double wall_s = 0;  ///< duration of the simulation itself
};

/// Use of the tensors that could be made again.
struct RecomputeUse {
  struct Part {
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
  };
  std::string taken;  ///< "none", "all" or "planned"
  Part kept;
  Part offloaded;
  Part recomputed;
  double recompute_s = 0;  ///< time spent on recomputing, per iteration
};

/// Facts that are the same for all policies.
struct RunSetting {
  sim::FileSchedule schedule;
  sim::Machine machine;
  std::uint64_t page_bytes = 0;
  RunBound bound;
  std::optional<RecomputeUse> recompute;  ///< recomputed tensors; none unless asked for
};

/// Text for people. `Head` comes before the policies, `Tail` behind them.
std::string HeadText(const RunSetting& setting);
std::string TailText(const RunSetting& setting);
std::string ToText(const RunSetting& setting, const PolicyRun& report);
/// The results for programs: one JSON object, described in docs/lab.md.
std::string ToJsonLine(const RunSetting& setting, const PolicyRun& report);

/// Share of `part` in `whole`; 0 if `whole` is 0.
inline double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// Time by which the last iteration took longer than the one before, as a share of the latter. None
/// if that took no time. Far from 0: the run is not in its steady state.
std::optional<double> LastChange(const sim::SimReport& sim);

/// The smallest value that at least `share` of the values do not exceed; 0 without values.
double Quantile(std::vector<double> values, double share);

}  // namespace sluice::tools
