#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "sluice/policy.h"

/// Words and numbers of the core. The core knows tiers only by their place in a list: 0 is the
/// fastest. In the last tier nothing is leased. The last tier may have no frames. The tier above it
/// is then the lowest that pages reach. Nothing here names a technology.

namespace sluice::core {

using TierIndex = std::uint8_t;
using FrameIndex = std::uint32_t;
using SegmentIndex = std::uint32_t;
using OpNumber = std::uint64_t;
using TicketNumber = std::uint64_t;
using TaskNumber = std::uint64_t;
using KeyIndex = std::uint32_t;
using LaneIndex = std::uint32_t;
using NameIndex = std::uint32_t;
using ReservationNumber = std::uint64_t;

inline constexpr TierIndex kTiersMax = 4;
inline constexpr TierIndex kNoTier = 0xff;
inline constexpr FrameIndex kNoFrame = std::numeric_limits<FrameIndex>::max();
inline constexpr PageIndex kNoPage = std::numeric_limits<PageIndex>::max();

using PagesByTier = std::array<std::uint32_t, kTiersMax>;

enum class LinkDirection : std::uint8_t { kIn, kOut };

/// Effect of an access on a page as a whole. kOverwrite covers the page fully: nothing is paged in.
enum class PageMode : std::uint8_t { kRead, kWrite, kOverwrite };
constexpr bool IsWrite(PageMode mode) { return mode != PageMode::kRead; }

/// Limits of the recordings that are kept: see RuntimeOptions::schedules_max and
/// recorded_accesses_max. Each is at least 1.
struct ScheduleLimits {
  std::uint32_t schedules_max = 64;
  std::uint64_t accesses_max = std::uint64_t{1} << 23;
};

}  // namespace sluice::core
