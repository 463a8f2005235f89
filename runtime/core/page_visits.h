#pragma once

#include <cstdint>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::core {

/// One op's use of one page, and what is known of the page's content at that moment.
struct PageVisit {
  std::uint32_t page = 0;
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
};

/// A schedule seen page by page, as a cycle: what follows the last op is the first one.
struct PageVisits {
  std::uint32_t op_count = 0;
  /// visits[page] in order of ops; at most one per op.
  std::vector<std::vector<PageVisit>> visits;
};

/// REQUIRES: schedule.page_bytes > 0. Ranges are cut to their tensors.
PageVisits VisitsOf(const Schedule& schedule, TierKind lowest_above);

}  // namespace sluice::core
