#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// A tensor that may be discarded after one of its uses and made again before the next, by doing
/// again what the op did that wrote it. Ops are places in Schedule::ops.
struct Recomputable {
  std::uint32_t tensor = 0;
  std::size_t writer = 0;
  std::size_t last_use = 0;  ///< `writer`, or a later op that reads it
  std::size_t next_use = 0;  ///< it is made again directly before this op
  double bytes = 0;
  double recompute_seconds = 0;
  double idle_seconds = 0;  ///< between last_use and next_use, by the ops of their lane

  friend bool operator==(const Recomputable&, const Recomputable&) = default;
};

inline constexpr std::size_t kRecomputableAccessesMax = std::size_t{1} << 20;

/// What may be made again, each tensor in the longest gap between two of its uses: those that an op
/// overwrites as a whole, without reading them, and says how long that takes again
/// (Access::recompute_seconds); that are discarded in the end; that are used in one lane; and whose
/// writer finds all that it read, unchanged and not discarded, before `next_use`. What it read may
/// be made again too if that is there by then; of tensors that exclude each other those stay that
/// cost the least per byte-second. So any subset of the result is possible as well. Tensors that
/// share bytes with others are left out. Only the `count_max` with the most byte-seconds are looked
/// at, and only as many as their writers have kRecomputableAccessesMax accesses together. In the
/// order of `next_use`, then of `writer`.
std::vector<Recomputable> FindRecomputable(const Schedule& schedule, std::size_t count_max = 1024);

/// When each op begins and ends if nobody waits for pages or for another lane.
struct LaneTimes {
  std::vector<double> begin;
  std::vector<double> end;
};
LaneTimes FindLaneTimes(const Schedule& schedule);

}  // namespace sluice::analysis
