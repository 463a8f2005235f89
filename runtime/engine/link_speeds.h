#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/core/plan.h"
#include "runtime/engine/link_meters.h"

namespace sluice::engine {

/// Seconds that a page takes over each link, by what has crossed it: bytes over the time in which
/// at least one copy was under way, the mean of old and new at every look.
/// Threads: externally synchronised.
class LinkSpeeds {
 public:
  LinkSpeeds(const LinkMeters& meters, std::size_t links, std::uint64_t page_bytes);

  /// Takes in what has crossed since the last look; where that is less than kPagesToTell pages,
  /// what is known stays.
  void Look();
  /// A direction that is not known is taken to be as fast as the other one; when that is not known
  /// either nothing has crossed yet, and the link to be no hindrance.
  std::vector<core::PlanLink> links() const;

  static constexpr std::uint64_t kPagesToTell = 8;
  static constexpr double kNoHindranceBytesPerSecond = 1e10;

 private:
  struct Direction {
    std::uint64_t bytes = 0;  ///< at the last look that told something
    double busy_s = 0;
    double page_s = 0;  ///< 0: not known
  };
  void Look(const DirectionStats& stats, Direction* direction) const;

  const LinkMeters& meters_;
  const std::uint64_t page_bytes_;
  std::vector<std::array<Direction, 2>> links_;
};

}  // namespace sluice::engine
