#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sim/schedule/extents.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

using KindBytes = std::array<std::uint64_t, kTensorKindCount>;

/// Facts of some of the ops together.
struct OpGroup {
  std::string name;
  std::uint64_t ops = 0;
  double seconds = 0;
  /// Bytes by kind of tensor. Bytes that an op touches twice count once.
  KindBytes read{};
  KindBytes written{};
  /// Bytes with content, and bytes that the op touches, at the op of the group at which each is
  /// largest.
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t working_set_bytes = 0;
  /// Bytes that the group's ops use again, and the distances that cover half, nine tenths and all
  /// of them.
  std::uint64_t reused_bytes = 0;
  std::array<std::uint64_t, 3> reuse_distances{};
};

/// Shares of OpGroup::reuse_distances.
inline constexpr std::array<double, 3> kGroupReuseShares = {0.5, 0.9, 1.0};

std::uint64_t Sum(const KindBytes& bytes);

/// The name that an op shares with its like: digits that no letter follows become "*".
/// "l12.mlp.forward" -> "l*.mlp.forward", "Conv2d_7" -> "Conv2d_*".
std::string GroupName(std::string_view op);

/// Most groups. With more names, or lanes, the rest is one group, "(others)".
inline constexpr std::size_t kGroupsMax = 4096;

/// Groups, the one that takes longest first.
struct Grouping {
  std::vector<OpGroup> groups;
  std::vector<std::uint32_t> of_op;  ///< group of each op
};

/// Ops by GroupName and by lane.
struct OpGroups {
  Grouping by_name;
  Grouping by_lane;
  /// Facts of all ops, as far as they can be added up.
  OpGroup all;
};
/// Groups the ops. Live bytes and bytes used again are left out: see schedule_facts.h.
OpGroups GroupOps(const FileSchedule& schedule, const Extents& extents);

}  // namespace sluice::sim
