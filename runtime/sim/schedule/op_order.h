#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// An "after" of an op that names an op which no earlier line holds.
struct ForwardWait {
  std::uint32_t op = 0;
  std::uint64_t waits_for_id = 0;
  std::uint64_t line = 0;
};

/// Fault of the first of `waits`, which is not empty, and its fix. The op does not exist, waits for
/// this one itself (a cycle, which is shown), or stands behind it. `ops` have rising ids. Time:
/// proportional to ops, their waits and `waits`.
std::string ExplainForwardWait(std::span<const FileOp> ops, std::span<const ForwardWait> waits);

/// The index of the op with this id, or ops.size(). `ops` have rising ids.
std::size_t FindOp(std::span<const FileOp> ops, std::uint64_t id);

}  // namespace sluice::sim
