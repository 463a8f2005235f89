#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "runtime/core/core.h"
#include "runtime/core/plan/plan.h"
#include "runtime/core/state/frame_pool.h"
#include "runtime/core/state/home_frames.h"
#include "runtime/core/state/mapped_pages.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

/// The policy's last victim. The policy would name it again as long as nothing changes.
struct Answer {
  std::uint64_t arrival = 0;  ///< number of the claim in the order of arrival
  std::uint64_t changes = 0;  ///< value of ResidencyMachine::changes, for which the answer holds
  std::optional<PageIndex> victim;
};

/// Pages that are due to leave, or to be cleaned, as planned, unless they are used before.
struct DueLeave {
  PlannedLeave leave;
  Position next_use = 0;
};

struct TierState {
  explicit TierState(const TierConfig& config)
      : keeps_mappings(config.keeps_mappings),
        pool(config.frames, keeps_mappings ? FrameOrder::kByReturn : FrameOrder::kByAge),
        mapped(keeps_mappings ? config.frames : 0) {}

  bool keeps_mappings;
  FramePool pool;
  MappedPages mapped;  ///< pages by the frame they are mapped to; empty unless they are kept
  HomeFrames homes;    ///< homes of the plan's pages; none unless mappings are kept
  MappingCounters mappings;
  std::uint64_t committed = 0;  ///< pages whose lowest tier this is
  FrameIndex written = 0;       ///< committed pages with content that no file has
  std::uint32_t reserved = 0;   ///< frames of granted reservations
  std::array<std::uint32_t, 2> transit_used{};
  std::uint32_t leaving = 0;          ///< evictions in flight
  std::uint32_t cleaning = 0;         ///< cleaning page-outs in flight
  std::uint32_t unhurried = 0;        ///< page-outs in flight that nobody is known to wait for
  std::uint32_t candidates_free = 0;  ///< evictable pages that leave for free
  /// Pages that may be dropped: those free to leave, and others.
  std::vector<PageIndex> lossless;
  std::array<std::uint32_t, kTensorKindCount> by_kind{};
  std::uint32_t write_failures = 0;  ///< failures of copies down to here, in a row
  bool fenced = false;
  std::uint64_t fenced_before = 0;  ///< first ticket's arrival since the tier was fenced
  Position cursor = 0;              ///< prefetch: steps before this position are seen to
  std::size_t cursor_request = 0;
  std::deque<DueLeave> leaves;     ///< leaves that are due; the first is perhaps done in part
  std::deque<DueLeave> cleans;     ///< cleanings that are due, of pages that stay
  std::deque<DueLeave> let_go;     ///< pages that were to leave and are clean: there until needed
  std::set<PageIndex> brought_up;  ///< pages brought up from this tier while a plan was followed
  Answer answer;                   ///< last answer to a ticket
  std::optional<FrameIndex> budget_target;  ///< target of a SetBudget without an answer yet
  FrameIndex budget_before = 0;
  bool advised = false;  ///< true if the policy's advice has been taken, per batch of events
  // Members of one round of the pump:
  /// Arrival of the first ticket that wanted a frame and got none.
  std::uint64_t starved_arrival = UINT64_MAX;
  bool starved = false;
  bool ahead_blocked = false;  ///< true if a goal waits: later ones must not overtake it
  std::uint32_t deficit = 0;   ///< frames wanted in vain
  bool no_victim = false;
};

/// Copies in flight over the link between two neighbours, down and up (see DirectionIndex).
struct LinkLoad {
  std::array<std::uint32_t, 2> in_flight{};
};

/// An op with leases out.
struct Holder {
  LaneIndex lane = 0;
  bool nested = false;
  std::uint32_t tickets = 0;
};

}  // namespace sluice::core
