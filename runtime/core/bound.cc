#include "runtime/core/bound.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/core/page_uses.h"
#include "runtime/core/page_visits.h"
#include "runtime/core/page_walks.h"
#include "runtime/core/pages_out.h"

namespace sluice::core {
namespace {

std::uint64_t CapacityPages(const Schedule& schedule, const BoundOptions& options) {
  return options.bytes_above / schedule.page_bytes;
}

/// F(1), F(2) ... F(iterations). One walk gives them all: what MIN fetches in an op does not depend
/// on where the run ends.
std::vector<std::uint64_t> LeastFetches(const PageUses& uses, int iterations) {
  InWalk walk(uses);
  walk.BeginEmpty(0);
  std::vector<std::uint64_t> fetches;
  for (int n = 0; n < iterations; ++n) {
    for (std::uint32_t op = 0; op < uses.op_count(); ++op) walk.Step();
    fetches.push_back(walk.fetches());
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

std::uint64_t FetchesOfMin(const Schedule& schedule, const BoundOptions& options, int iterations) {
  const PageVisits visits = VisitsOf(schedule, options.lowest_above);
  const PageUses uses(visits, CapacityPages(schedule, options));
  return LeastFetches(uses, iterations).back();
}

BoundBytes ComputeLinkBound(const PageVisits& visits,
                            const PageUses& uses,
                            std::uint64_t page_bytes,
                            int iterations_max) {
  SLUICE_CHECK(iterations_max >= 1, "a bound looks at one iteration at least");
  const std::uint64_t capacity = uses.capacity();
  BoundBytes bound;
  for (const std::uint64_t fetches : LeastFetches(uses, iterations_max)) {
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

}  // namespace sluice::core
