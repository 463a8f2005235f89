#pragma once

#include <string>
#include <vector>

#include "runtime/analysis/bounds/time_bound.h"
#include "runtime/sim/simulator/machine.h"
#include "sluice/schedule.h"

namespace sluice::tools {

/// The time per iteration that no policy stays below (docs/bounds.md), and its causes.
struct RunBound {
  /// `share` of bound_s that a tenth more of one tier or link would save.
  struct Saving {
    std::string name;  ///< name of a tier or a link
    double share = 0;
  };

  /// Bound of the moves, and of the lane that computes longest.
  analysis::TimeBound moves;
  /// The longest chain of ops that wait for each other.
  double compute_s = 0;
  double bound_s = 0;
  /// Savings of every tier but the last, and of every link.
  std::vector<Saving> savings;

  bool ComputeBinds() const;
};

/// Computes the bound. REQUIRES: `schedule` fits the tiers of `machine`.
RunBound BoundRun(const Schedule& schedule, const sim::Machine& machine, double compute_s);

/// The bound's cause for programs: "compute", or "hbm-dram window".
std::string BindsName(const sim::Machine& machine, const RunBound& bound);
/// The bound's cause for people: "bound by hbm-dram (windows); +10 % hbm-dram would save 4.1 %".
std::string BindsSentence(const sim::Machine& machine, const RunBound& bound);

}  // namespace sluice::tools
