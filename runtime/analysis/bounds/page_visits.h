#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// One op's use of one page, and what is known of the page's content at that moment.
struct PageVisit {
  std::uint32_t op = 0;
  /// The op runs above the link (else below it).
  bool above = false;
  bool writes = false;
  /// Some byte of the page holds content, and that content is read at this visit or later.
  bool alive_before = false;
  /// The same just after the visit, counting only bytes that were last written above the link.
  bool fresh_after = false;
  /// Of that, bytes that no op below has met since: they exist above only, unless they were copied.
  bool unmet_after = false;
  /// For how many ops from here on content that this visit wrote above is still needed: to the last
  /// op that needs it, the first below or the next write above, whichever comes first. 0: none is.
  std::uint32_t fresh_ops = 0;
  /// That op runs below the link, so the content has crossed by then.
  bool fresh_meets_below = false;

  friend auto operator<=>(const PageVisit&, const PageVisit&) = default;
};

/// A schedule seen page by page, as a cycle: what follows the last op is the first one. Pages that
/// are visited alike are one item.
struct PageVisits {
  std::uint32_t op_count = 0;
  /// visits[item] in order of ops; at most one per op, one at least.
  std::vector<std::vector<PageVisit>> visits;
  /// How many pages each item is.
  std::vector<std::uint64_t> pages;
};

/// REQUIRES: schedule.page_bytes > 0. Ranges are cut to their tensors.
/// Time: n log n in the accesses, whatever the tensors' sizes, unless many of one segment overlap.
/// Pages of which thousands of parts are told apart are left out when they would take too long:
/// then less moves, and what is a bound remains one.
PageVisits VisitsOf(const Schedule& schedule, TierKind lowest_above);

}  // namespace sluice::analysis
