#include "runtime/core/bound.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/core/page_visits.h"

namespace sluice::core {
namespace {

/// A visit above the link, as MIN sees it.
struct Use {
  std::uint32_t page = 0;
  /// The old content is needed, so it is fetched when the page is not above.
  bool needs_content = false;
  /// The page may be kept from the previous use (cyclically), and that saves a fetch.
  bool keepable = false;
  /// Steps until the page's next use, and whether it is keepable until then.
  std::uint32_t next_distance = 0;
  bool next_keepable = false;
};

/// The uses that hold their pages at once: an op, or one page of an op that exceeds M.
using Step = std::vector<Use>;

struct Place {
  std::uint32_t step = 0;
  std::uint32_t use = 0;
};

std::uint64_t CapacityPages(const Schedule& schedule, const BoundOptions& options) {
  return options.bytes_above / schedule.page_bytes;
}

/// The visits above the link, per op.
std::vector<std::vector<PageVisit>> VisitsAbove(const PageVisits& pages) {
  std::vector<std::vector<PageVisit>> ops(pages.op_count);
  for (const std::vector<PageVisit>& visits : pages.visits) {
    for (const PageVisit& visit : visits) {
      if (visit.above) ops[visit.op].push_back(visit);
    }
  }
  return ops;
}

/// For every visit: whether the page's previous visit above (cyclically) left a copy that is still
/// good, that is whether nothing below wrote the page in between.
std::vector<bool> CopyStillGood(const std::vector<PageVisit>& visits) {
  std::vector<bool> good(visits.size());
  bool copy_good = false;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < visits.size(); ++i) {
      good[i] = copy_good;
      if (visits[i].above) copy_good = true;
      if (!visits[i].above && visits[i].writes) copy_good = false;
    }
  }
  return good;
}

/// Steps of one iteration, and where each page is used, in order.
struct Steps {
  std::vector<Step> steps;
  std::vector<std::vector<Place>> places;
};

/// Lays the ops out as steps and links every use to the next one of its page.
class StepBuilder {
 public:
  StepBuilder(const PageVisits& pages, std::uint64_t capacity) {
    result_.places.resize(pages.visits.size());
    std::vector<std::vector<bool>> good;
    for (const auto& visits : pages.visits) good.push_back(CopyStillGood(visits));
    std::vector<std::size_t> seen(pages.visits.size(), 0);
    for (const std::vector<PageVisit>& op : VisitsAbove(pages)) {
      const bool at_once = op.size() <= capacity;
      for (const PageVisit& visit : op) {
        const auto& visits = pages.visits[visit.page];
        while (visits[seen[visit.page]].op != visit.op) ++seen[visit.page];
        Add(visit, good[visit.page][seen[visit.page]], !at_once);
      }
      open_ = false;
    }
    LinkUses();
  }

  Steps Take() { return std::move(result_); }

 private:
  void Add(const PageVisit& visit, bool copy_good, bool alone) {
    if (!open_ || alone) result_.steps.emplace_back();
    open_ = true;
    Step& step = result_.steps.back();
    result_.places[visit.page].push_back({static_cast<std::uint32_t>(result_.steps.size() - 1),
                                          static_cast<std::uint32_t>(step.size())});
    step.push_back({.page = visit.page,
                    .needs_content = visit.alive_before,
                    .keepable = visit.alive_before && copy_good});
  }

  void LinkUses() {
    const auto step_count = static_cast<std::uint32_t>(result_.steps.size());
    for (const std::vector<Place>& places : result_.places) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const Place& next = places[(i + 1) % places.size()];
        const bool wraps = i + 1 == places.size();
        Use& use = result_.steps[places[i].step][places[i].use];
        use.next_keepable = result_.steps[next.step][next.use].keepable;
        use.next_distance = next.step + (wraps ? step_count : 0) - places[i].step;
      }
    }
  }

  Steps result_;
  bool open_ = false;
};

/// Belady's MIN over steps: the kept pages, ordered by their next use.
class MinCache {
 public:
  MinCache(std::size_t pages, std::uint64_t capacity)
      : next_use_(pages, kNotKept), capacity_(capacity) {}

  /// Runs one step at time `now` (steps counted across iterations, `horizon` of them in all).
  std::uint64_t Run(const Step& step, std::uint64_t now, std::uint64_t horizon) {
    std::uint64_t fetches = 0;
    for (const Use& use : step) {
      if (next_use_[use.page] == kNotKept && use.needs_content) ++fetches;
      Drop(use.page);
    }
    while (!kept_.empty() && kept_.size() + step.size() > capacity_) Drop(kept_.rbegin()->second);
    for (const Use& use : step) {
      const std::uint64_t next = now + use.next_distance;
      if (use.next_keepable && next < horizon) Keep(use.page, next);
    }
    return fetches;
  }

 private:
  static constexpr std::uint64_t kNotKept = UINT64_MAX;

  void Keep(std::uint32_t page, std::uint64_t next) {
    next_use_[page] = next;
    kept_.emplace(next, page);
  }
  void Drop(std::uint32_t page) {
    if (next_use_[page] == kNotKept) return;
    kept_.erase({next_use_[page], page});
    next_use_[page] = kNotKept;
  }

  std::vector<std::uint64_t> next_use_;
  std::set<std::pair<std::uint64_t, std::uint32_t>> kept_;
  const std::uint64_t capacity_;
};

std::uint64_t CountFetches(const Steps& steps, std::uint64_t capacity, int iterations) {
  MinCache cache(steps.places.size(), capacity);
  const std::uint64_t horizon = steps.steps.size() * static_cast<std::uint64_t>(iterations);
  std::uint64_t fetches = 0;
  std::uint64_t now = 0;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (const Step& step : steps.steps) fetches += cache.Run(step, now++, horizon);
  }
  return fetches;
}

/// What is between a visit of a page and the next.
struct Gap {
  /// Content that this iteration wrote above and that is read later.
  bool fresh = false;
  /// Of that, what exists above only, and no op below meets before the page is written again.
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
  explicit Crossings(std::uint32_t ops) : fresh_(ops + 1, 0), optional_(ops + 1, 0) {}

  void AddPage(const std::vector<PageVisit>& visits, const std::vector<Gap>& gaps) {
    for (std::size_t i = 0; i < visits.size(); ++i) {
      if (i + 1 < visits.size()) {
        AddOps(visits[i].op + 1, visits[i + 1].op, gaps[i]);
      } else {
        AddOps(visits[i].op + 1, static_cast<std::uint32_t>(fresh_.size() - 1), gaps[i]);
        AddOps(0, visits[0].op, gaps[i]);
      }
    }
  }

  /// The largest excess over the frames that an op leaves free: fresh and optional pages.
  std::pair<std::uint64_t, std::uint64_t> LargestExcess(
      const std::vector<std::vector<PageVisit>>& ops, std::uint64_t capacity) const {
    std::int64_t fresh = 0, optional = 0, fresh_max = 0, optional_max = 0;
    for (std::size_t op = 0; op < ops.size(); ++op) {
      fresh += fresh_[op];
      optional += optional_[op];
      if (ops[op].size() > capacity) continue;
      const auto room = static_cast<std::int64_t>(capacity - ops[op].size());
      fresh_max = std::max(fresh_max, fresh - room);
      optional_max = std::max(optional_max, optional - room);
    }
    return {static_cast<std::uint64_t>(fresh_max), static_cast<std::uint64_t>(optional_max)};
  }

 private:
  void AddOps(std::uint32_t begin, std::uint32_t end, const Gap& gap) {
    if (begin >= end) return;
    if (gap.fresh) ++fresh_[begin], --fresh_[end];
    if (gap.optional) ++optional_[begin], --optional_[end];
  }

  std::vector<std::int64_t> fresh_;
  std::vector<std::int64_t> optional_;
};

std::uint64_t PagesOut(const PageVisits& pages, std::uint64_t capacity) {
  Crossings crossings(pages.op_count);
  std::uint64_t forced = 0;
  for (const std::vector<PageVisit>& visits : pages.visits) {
    if (!visits.empty()) crossings.AddPage(visits, GapsOf(visits));
    forced += ForcedOut(visits);
  }
  const auto [fresh, optional] = crossings.LargestExcess(VisitsAbove(pages), capacity);
  return std::max(fresh, forced + optional);
}

}  // namespace

double BoundBytes::LeastIn(int count) const {
  double least = 0;
  for (std::size_t n = 1; n <= least_in.size(); ++n) {
    least = std::max(least, static_cast<double>(count / static_cast<int>(n)) * least_in[n - 1]);
  }
  return least;
}

double BoundBytes::LeastOut(int count) const { return count > 1 ? (count - 1) * out_bytes : 0; }

std::uint64_t FetchesOfMin(const Schedule& schedule, const BoundOptions& options, int iterations) {
  const std::uint64_t capacity = CapacityPages(schedule, options);
  const PageVisits pages = VisitsOf(schedule, options.lowest_above);
  return CountFetches(StepBuilder(pages, capacity).Take(), capacity, iterations);
}

BoundBytes ComputeLinkBound(const Schedule& schedule, const BoundOptions& options) {
  SLUICE_CHECK(options.iterations_max >= 1, "a bound looks at one iteration at least");
  const std::uint64_t capacity = CapacityPages(schedule, options);
  const PageVisits pages = VisitsOf(schedule, options.lowest_above);
  const Steps steps = StepBuilder(pages, capacity).Take();
  const auto page_bytes = static_cast<double>(schedule.page_bytes);
  BoundBytes bound;
  for (int n = 1; n <= options.iterations_max; ++n) {
    const std::uint64_t fetches = CountFetches(steps, capacity, n);
    const std::uint64_t moved = fetches - std::min(fetches, capacity);
    bound.least_in.push_back(static_cast<double>(moved) * page_bytes);
    bound.in_bytes = std::max(bound.in_bytes, bound.least_in.back() / n);
  }
  bound.out_bytes = static_cast<double>(PagesOut(pages, capacity)) * page_bytes;
  return bound;
}

}  // namespace sluice::core
