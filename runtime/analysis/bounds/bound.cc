#include "runtime/analysis/bounds/bound.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/check.h"
#include "runtime/analysis/bounds/page_uses.h"
#include "runtime/analysis/bounds/page_visits.h"
#include "runtime/analysis/bounds/page_walks.h"
#include "runtime/analysis/bounds/pages_out.h"

namespace sluice::analysis {
namespace {

std::uint64_t CapacityPages(const Schedule& schedule, const BoundOptions& options) {
  return options.bytes_above / schedule.page_bytes;
}

struct Fetches {
  /// F(1), F(2) ... F(iterations).
  std::vector<std::uint64_t> of_run;
  /// Growth of F from iteration to iteration in the long run; 0 where it was not found.
  double per_iteration = 0;
};

/// Fetches of runs of 1, 2 ... `iterations`. One walk gives all of them, because MIN's fetches in
/// an op do not depend on the end of the run. If two iterations end with the same pages above, the
/// iterations between them repeat for ever. To find that, the walk keeps its state after the last
/// iteration whose number is a power of two.
Fetches LeastFetches(const PageUses& uses, int iterations) {
  InWalk walk(uses);
  walk.BeginEmpty(0);
  Fetches fetches;
  std::optional<InWalk> earlier;
  int earlier_n = 0;
  for (int n = 1; n <= iterations; ++n) {
    for (std::uint32_t op = 0; op < uses.op_count(); ++op) walk.Step();
    fetches.of_run.push_back(walk.fetches());
    if (fetches.per_iteration > 0) continue;
    if (earlier.has_value() && walk.StandsWhere(*earlier)) {
      fetches.per_iteration = static_cast<double>(walk.fetches() - earlier->fetches()) /
                              static_cast<double>(n - earlier_n);
    }
    if (!std::has_single_bit(static_cast<unsigned>(n))) continue;
    earlier.emplace(walk);
    earlier_n = n;
  }
  return fetches;
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

BoundBytes ComputeLinkBound(const PageVisits& visits,
                            const PageUses& uses,
                            std::uint64_t page_bytes,
                            int iterations_max) {
  SLUICE_CHECK(iterations_max >= 1, "a bound looks at one iteration at least");
  const std::uint64_t capacity = uses.capacity();
  BoundBytes bound;
  const Fetches least = LeastFetches(uses, iterations_max);
  bound.in_bytes = least.per_iteration * static_cast<double>(page_bytes);
  for (const std::uint64_t fetches : least.of_run) {
    const std::uint64_t moved = fetches - std::min(fetches, capacity);
    bound.least_in.push_back(static_cast<double>(moved * page_bytes));
    const auto iterations = static_cast<double>(bound.least_in.size());
    bound.in_bytes = std::max(bound.in_bytes, bound.least_in.back() / iterations);
  }
  bound.out_bytes = static_cast<double>(LeastPagesOut(visits, capacity) * page_bytes);
  return bound;
}

BoundBytes ComputeLinkBound(const Schedule& schedule, const BoundOptions& options) {
  const PageVisits visits = VisitsOf(schedule, options.lowest_above);
  const PageUses uses(visits, CapacityPages(schedule, options));
  return ComputeLinkBound(visits, uses, schedule.page_bytes, options.iterations_max);
}

}  // namespace sluice::analysis
