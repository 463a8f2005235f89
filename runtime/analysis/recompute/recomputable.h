#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// A tensor that may be discarded after one of its uses and made again before the next. The op that
/// wrote it is then done again. Ops are places in Schedule::ops.
struct Recomputable {
  std::uint32_t tensor = 0;
  std::size_t writer = 0;
  std::size_t last_use = 0;  ///< `writer`, or a later op that reads it
  std::size_t next_use = 0;  ///< op before which the tensor is directly made again
  double bytes = 0;
  double recompute_seconds = 0;
  double idle_seconds = 0;  ///< seconds between last_use and next_use, by the ops of their lane

  friend bool operator==(const Recomputable&, const Recomputable&) = default;
};

inline constexpr std::size_t kRecomputableAccessesMax = std::size_t{1} << 20;

/// Finds the tensors that may be made again, each in the longest gap between two of its uses. Such
/// a tensor:
/// - is overwritten as a whole by an op that does not read it, and says how long that takes again
///   (Access::recompute_seconds)
/// - is discarded in the end
/// - is used in one lane
/// - has a writer that finds all its inputs, unchanged and not discarded, before `next_use`
/// An input may be made again, too, if it is there by then. Of tensors that exclude each other
/// those stay that cost the least per byte-second. So any subset of the result is possible as well.
///
/// Tensors that share bytes with others are left out. Only the `count_max` with the most
/// byte-seconds are looked at, and only as many as their writers have kRecomputableAccessesMax
/// accesses together. The result is in the order of `next_use`, then of `writer`.
std::vector<Recomputable> FindRecomputable(const Schedule& schedule, std::size_t count_max = 1024);

/// Times at which each op begins and ends if nobody waits for pages or for another lane.
struct LaneTimes {
  std::vector<double> begin;
  std::vector<double> end;
};
LaneTimes FindLaneTimes(const Schedule& schedule);

}  // namespace sluice::analysis
