#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sim/extents.h"
#include "runtime/sim/file_schedule.h"

namespace sluice::sim {

using KindBytes = std::array<std::uint64_t, kTensorKindCount>;

/// What some of the ops do together.
struct OpGroup {
  std::string name;
  std::uint64_t ops = 0;
  double seconds = 0;
  /// Bytes by kind of tensor; what an op touches twice counts once.
  KindBytes read{};
  KindBytes written{};
};

std::uint64_t Sum(const KindBytes& bytes);

/// The name that an op shares with its like: digits that no letter follows become "*".
/// "l12.mlp.forward" -> "l*.mlp.forward", "Conv2d_7" -> "Conv2d_*".
std::string GroupName(std::string_view op);

/// With more names, or lanes, the rest is one group, "(others)".
inline constexpr std::size_t kGroupsMax = 4096;

/// Ops by GroupName and by lane, the group that takes longest first.
struct OpGroups {
  std::vector<OpGroup> by_name;
  std::vector<OpGroup> by_lane;
  /// All of them.
  OpGroup all;
};
OpGroups GroupOps(const FileSchedule& schedule, const Extents& extents);

}  // namespace sluice::sim
