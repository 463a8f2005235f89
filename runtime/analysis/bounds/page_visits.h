#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// One op's use of one page, and the state of the page's content at that moment.
struct PageVisit {
  std::uint32_t op = 0;
  /// Whether the op runs above the link, else below it.
  bool above = false;
  bool writes = false;
  /// Whether some byte of the page holds content that is read at this visit or later.
  bool alive_before = false;
  /// Whether a byte that was last written above the link holds such content just after the visit.
  bool fresh_after = false;
  /// Whether some of these bytes were met by no op below since. They exist above only, unless they
  /// were copied.
  bool unmet_after = false;
  /// Number of ops for which content that this visit wrote above is still needed: to the last op
  /// that needs it, the first below or the next write above, whichever comes first. 0: none is
  /// needed.
  std::uint32_t fresh_ops = 0;
  /// Whether that op runs below the link, so that the content has crossed by then.
  bool fresh_meets_below = false;

  friend auto operator<=>(const PageVisit&, const PageVisit&) = default;
};

/// A schedule seen page by page, as a cycle: the first op follows the last one. Pages that are
/// visited alike are one item.
struct PageVisits {
  std::uint32_t op_count = 0;
  /// visits[item] in order of ops; at most one per op, one at least.
  std::vector<std::vector<PageVisit>> visits;
  /// Number of pages of each item.
  std::vector<std::uint64_t> pages;
};

/// Finds the visits. REQUIRES: schedule.page_bytes > 0. Ranges are cut to their tensors.
/// Time: n log n in the accesses, whatever the tensors' sizes, unless many of one segment overlap.
/// A page that ops touch in thousands of different parts is left out if it would take too long. A
/// bound stays a lower bound, because the schedule then has fewer bytes to move.
PageVisits VisitsOf(const Schedule& schedule, TierKind lowest_above);

}  // namespace sluice::analysis
