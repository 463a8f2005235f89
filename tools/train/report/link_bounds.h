#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/analysis/bounds/bound.h"
#include "sluice/options.h"
#include "sluice/schedule.h"

namespace sluice::tools {

/// What a link gives to a plain loop, in bytes per second; `both` counts both directions.
struct LinkRates {
  double in = 0;
  double out = 0;
  double both = 0;
};

/// Per iteration of the key: what must cross a link at least, and how long that takes.
struct LinkBound {
  analysis::BoundBytes bytes;
  double seconds = 0;
};

/// By the names of Stats::links.
using LinkBounds = std::map<std::string, LinkBound>;

inline constexpr const char* kDeviceLink = "hbm-dram";
inline constexpr const char* kDiskLink = "dram-nvme";

/// The links of a runtime, from hbm down: without nvme there is no dram-nvme.
std::vector<std::string> LinksOf(const RuntimeOptions& options);

/// The bytes only; seconds are 0. Budgets are those of `options`.
LinkBounds ComputeLinkBounds(const Schedule& schedule, const RuntimeOptions& options);

/// max(in / R, out / W, (in + out) / X).
double BoundSeconds(const analysis::BoundBytes& bytes, const LinkRates& rates);

/// Seconds per iteration that no schedule of transfers stays below for these ops: the model's one
/// after another, each as long as the schedule says, the optimizer's beside them in any order; by
/// windows over all links (docs/bounds.md). Where the model's ops take more together than
/// `compute_seconds_max` they all count for less in proportion. `rates`: by the names of
/// Stats::links.
double ScheduleBoundSeconds(Schedule schedule,
                            const RuntimeOptions& options,
                            const std::map<std::string, LinkRates>& rates,
                            double compute_seconds_max);

/// The rate of both directions at which the bytes take `seconds`; 0 when there are none to move.
double RateForSeconds(const analysis::BoundBytes& bytes, double seconds);

}  // namespace sluice::tools
