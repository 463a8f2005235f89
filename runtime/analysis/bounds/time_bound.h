#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/analysis/bounds/bound.h"
#include "runtime/analysis/bounds/windows.h"
#include "sluice/schedule.h"
#include "sluice/tier.h"

/// Lower bounds on the time of an iteration, whatever the policy. docs/bounds.md has the
/// assumptions; bound.h, windows.h and lanes.h have the proofs.
///
/// Note [Runs of n iterations]
/// A run of n iterations takes, from the first op's start to the last op's end, at least
/// - n times the compute
/// - each link's time for F(n) - C pages in and n - 1 times the volume out. The content at the
///   start may be there for nothing, and the first iteration may find its excess still above.
/// - each link's time for the shorter runs into which it can be cut, added up
/// - the chain as often as it fits, and the other ops. A chain of m iterations that begins at op a
///   fits (n - 1) / m times, rounded down, wherever a is.
/// A run whose first iterations are left out counts as a run with the best possible start.

namespace sluice::analysis {

/// The rates of a link; in is towards the faster tier. A rate of 0 is unknown and bounds nothing.
struct BoundLink {
  double in_bytes_per_s = 0;
  double out_bytes_per_s = 0;
  /// Most bytes per second of both directions together; 0: they are independent.
  double both_bytes_per_s = 0;
  /// Whether both directions share in_bytes_per_s.
  bool half = false;
};

struct TimeBoundOptions {
  /// Tiers, fastest first, two at least.
  std::vector<TierKind> tiers;
  /// Budgets of the tiers. The last one does not count.
  std::vector<std::uint64_t> tier_bytes;
  /// links[i] is between tiers[i] and tiers[i + 1].
  std::vector<BoundLink> links;
  /// Volumes are counted over 1 .. iterations_max iterations.
  int iterations_max = 64;
  /// Most ops of a lane that are tried as ends of windows, evenly chosen. Memory grows with the
  /// square.
  std::uint32_t window_ends_max = 2048;
  /// Most accesses that are walked through per link and lane; else fewer ends are tried. About 5 *
  /// 10^7 take a second.
  std::uint64_t window_accesses_max = std::uint64_t{1} << 25;
};

/// Bound of one link, per iteration.
struct LinkTimeBound {
  /// Least bytes that the link moves, and their seconds.
  BoundBytes bytes;
  double volume_s = 0;
  /// Seconds by windows over this link alone; never less than the ops of any lane.
  double window_s = 0;
};

enum class BoundKind : std::uint8_t { kCompute, kVolume, kWindow };
/// Name of the kind: "compute", "volume", "window".
std::string_view ToString(BoundKind kind);

/// Lower limits of the time per iteration of a run of many. Every figure holds for any policy, and
/// whatever is resident at the start.
struct TimeBound {
  /// Seconds of the ops of the lane that computes longest.
  double compute_s = 0;
  std::vector<LinkTimeBound> links;
  /// Seconds by windows over all links together.
  double window_s = 0;
  /// Largest bound of all.
  double bound_s = 0;
  BoundKind binds = BoundKind::kCompute;
  /// Link of that bound, unless it is compute. If only windows over several links together reach
  /// it, the link that reaches most alone.
  std::size_t link = 0;

  /// A limit for `count` consecutive iterations, from the first op's start to the last op's end,
  /// whatever is resident at the start. Grows towards count * bound_s, from at least
  /// count * compute_s.
  double LeastSeconds(int count) const;

  /// Parts of LeastSeconds, per lane.
  struct LaneWindows {
    WindowCycle cycle;
    double compute_s = 0;
  };
  std::vector<LaneWindows> lanes;
  std::vector<BoundLink> rates;
};

/// Computes the bound. REQUIRES: those of ComputeLinkBound; options fit together.
TimeBound ComputeTimeBound(const Schedule& schedule, const TimeBoundOptions& options);

/// Seconds that a link needs for bytes in and out.
double LinkSeconds(const BoundLink& link, double in_bytes, double out_bytes);

}  // namespace sluice::analysis
