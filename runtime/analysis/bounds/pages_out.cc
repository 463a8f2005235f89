#include "runtime/analysis/bounds/pages_out.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice::analysis {
namespace {

/// Gap between a visit of a page and the next.
struct Gap {
  /// Whether there is content that this iteration wrote above and that is read later.
  bool fresh = false;
  /// Whether that content exists above only, and no op below meets it before the page is written
  /// again.
  bool optional = false;
};

/// Gap i follows visit i.
std::vector<Gap> GapsOf(const std::vector<PageVisit>& visits) {
  std::vector<Gap> gaps(visits.size());
  bool below_next = false;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = visits.size(); i-- > 0;) {
      gaps[i] = {.fresh = visits[i].fresh_after, .optional = visits[i].unmet_after && !below_next};
      if (!visits[i].above) below_next = true;
      if (visits[i].above && visits[i].writes) below_next = false;
    }
  }
  return gaps;
}

/// Visits below that find content which exists above only: a copy out in every iteration.
std::uint64_t ForcedOut(const std::vector<PageVisit>& visits) {
  std::uint64_t forced = 0;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const PageVisit& before = visits[(i + visits.size() - 1) % visits.size()];
    if (!visits[i].above && before.unmet_after) ++forced;
  }
  return forced;
}

/// Pages that cross each op in fresh and in optional gaps, as differences from op to op.
class Crossings {
 public:
  explicit Crossings(std::uint32_t ops)
      : fresh_(ops + 1, 0), optional_(ops + 1, 0), held_(ops, 0) {}

  void AddItem(std::uint64_t pages, const std::vector<PageVisit>& visits) {
    const std::vector<Gap> gaps = GapsOf(visits);
    const auto count = static_cast<std::int64_t>(pages);
    for (std::size_t i = 0; i < visits.size(); ++i) {
      if (visits[i].above) held_[visits[i].op] += pages;
      if (i + 1 < visits.size()) {
        AddOps(visits[i].op + 1, visits[i + 1].op, gaps[i], count);
      } else {
        AddOps(visits[i].op + 1, static_cast<std::uint32_t>(held_.size()), gaps[i], count);
        AddOps(0, visits[0].op, gaps[i], count);
      }
    }
  }

  /// The largest excess over the frames that an op leaves free: fresh and optional pages.
  std::pair<std::uint64_t, std::uint64_t> LargestExcess(std::uint64_t capacity) const {
    std::int64_t fresh = 0, optional = 0, fresh_max = 0, optional_max = 0;
    for (std::size_t op = 0; op < held_.size(); ++op) {
      fresh += fresh_[op];
      optional += optional_[op];
      if (held_[op] > capacity) continue;
      const auto room = static_cast<std::int64_t>(capacity - held_[op]);
      fresh_max = std::max(fresh_max, fresh - room);
      optional_max = std::max(optional_max, optional - room);
    }
    return {static_cast<std::uint64_t>(fresh_max), static_cast<std::uint64_t>(optional_max)};
  }

 private:
  void AddOps(std::uint32_t begin, std::uint32_t end, const Gap& gap, std::int64_t pages) {
    if (begin >= end) return;
    if (gap.fresh) fresh_[begin] += pages, fresh_[end] -= pages;
    if (gap.optional) optional_[begin] += pages, optional_[end] -= pages;
  }

  std::vector<std::int64_t> fresh_;
  std::vector<std::int64_t> optional_;
  /// Pages that each op holds above.
  std::vector<std::uint64_t> held_;
};

}  // namespace

std::uint64_t LeastPagesOut(const PageVisits& visits, std::uint64_t capacity) {
  Crossings crossings(visits.op_count);
  std::uint64_t forced = 0;
  for (std::size_t item = 0; item < visits.visits.size(); ++item) {
    crossings.AddItem(visits.pages[item], visits.visits[item]);
    forced += visits.pages[item] * ForcedOut(visits.visits[item]);
  }
  const auto [fresh, optional] = crossings.LargestExcess(capacity);
  return std::max(fresh, forced + optional);
}

}  // namespace sluice::analysis
