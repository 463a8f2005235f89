#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/analysis/bounds/bound.h"
#include "sluice/options.h"
#include "sluice/schedule.h"

namespace sluice::tools {

/// Rates of a link under a plain loop, in bytes per second. `both` counts both directions.
struct LinkRates {
  double in = 0;
  double out = 0;
  double both = 0;
};

/// Bound of a link per iteration of the key: the bytes that must cross at least, and their seconds.
struct LinkBound {
  analysis::BoundBytes bytes;
  double seconds = 0;
};

/// Bounds by the names of Stats::links.
using LinkBounds = std::map<std::string, LinkBound>;

inline constexpr const char* kDeviceLink = "hbm-dram";
inline constexpr const char* kDiskLink = "dram-nvme";

/// The links of a runtime, from hbm down: without nvme there is no dram-nvme.
std::vector<std::string> LinksOf(const RuntimeOptions& options);

/// Computes the bytes only; seconds are 0. Budgets are those of `options`.
LinkBounds ComputeLinkBounds(const Schedule& schedule, const RuntimeOptions& options);

/// Seconds for the bytes: max(in / R, out / W, (in + out) / X).
double BoundSeconds(const analysis::BoundBytes& bytes, const LinkRates& rates);

/// Seconds per iteration that no schedule of transfers stays below for these ops, by windows over
/// all links (docs/bounds.md). The model's ops run one after another, each as long as the schedule
/// says. The optimizer's run beside them in any order. If the model's ops take more together than
/// `compute_seconds_max`, they all count for less in proportion. `rates`: by the names of
/// Stats::links.
double ScheduleBoundSeconds(Schedule schedule,
                            const RuntimeOptions& options,
                            const std::map<std::string, LinkRates>& rates,
                            double compute_seconds_max);

/// The rate of both directions at which the bytes take `seconds`; 0 when there are none to move.
double RateForSeconds(const analysis::BoundBytes& bytes, double seconds);

}  // namespace sluice::tools
