#pragma once

#include <cstdint>
#include <vector>

#include "runtime/analysis/bounds/page_uses.h"
#include "runtime/analysis/bounds/page_visits.h"
#include "sluice/schedule.h"

/// Lower bounds on the bytes that any schedule of transfers moves over one link. Bounds on time are
/// in time_bound.h. docs/bounds.md says how they belong together.
///
/// Note [Why these are bounds]
/// Memory above the link holds at most M bytes, that is C whole pages. A page is above as a whole
/// or not at all. An op needs all of its pages above at once. The key's iteration repeats.
///
/// In. Between two uses a page either stays above, or is fetched for the second use. A use whose
/// old content is dead costs nothing. Such uses are the first one after a discard, and an overwrite
/// with nothing else alive in the page.
/// - A stay is an interval over ops, and every kept interval saves one fetch.
/// - At each op, the intervals that cross it and the op's own pages share C frames.
/// - If an op overflows, the interval with the furthest end is dropped. That keeps the largest
///   possible number of intervals, all of which save the same.
/// So F(n), counted that way from an empty tier, is the least number of fetches for n iterations.
/// - A run that starts with content above becomes one that starts empty by fetching that content
///   first, at most C pages. So any n iterations move at least F(n) - C pages.
/// - MIN is deterministic. Let it keep at the end of iteration k + p what it kept at the end of k.
///   From there on F(n + p) = F(n) + F(k + p) - F(k). In the long run an iteration moves at least
///   (F(k + p) - F(k)) / p.
/// - A write below the link (a tensor leased to a lower tier) makes the copy above stale, so
///   keeping it saves nothing.
/// Any n gives a bound per iteration; the largest is taken.
///
/// Out. Take one op of the iteration. Take the pages that hold at that moment content which this
/// iteration wrote above the link and which is read later. Those that do not fit beside the op's
/// own pages are below. So their content crossed the link since it was written, less than one
/// iteration ago. The next iteration writes it anew, so every iteration moves as much.
///
/// Content may also be written above and read next by an op that runs below. It crosses in every
/// iteration, wherever the frames are. Such pages count once: either as that, or in the excess.
///
/// Simplifications keep it a bound:
/// - Bytes rather than pages decide what is alive.
/// - An op whose pages exceed M cannot have held them at once, and is taken page by page.
/// - Prefetches that are undone, and copies that are kept twice, only move more.

namespace sluice::analysis {

struct BoundOptions {
  /// The memory above the link: tiers of this kind and of all faster kinds.
  TierKind lowest_above{};
  /// M: their budgets together.
  std::uint64_t bytes_above = 0;
  /// F(n) is tried for n = 1 .. iterations_max.
  int iterations_max = 64;
};

/// Least bytes that one iteration moves in the long run, and that a finite run moves.
struct BoundBytes {
  /// Mean of a run of many iterations. A short run may move less, see LeastIn.
  double in_bytes = 0;
  double out_bytes = 0;
  /// The least bytes in of 1, 2 ... consecutive iterations, as far as was tried.
  std::vector<double> least_in;

  /// The least bytes that `count` consecutive iterations can move, whatever is above the link when
  /// they begin.
  double LeastIn(int count) const;
  double LeastOut(int count) const;
};

/// Computes the bound. REQUIRES: page_bytes > 0; the accesses of one op are held together. Bytes
/// that are read, but neither written nor discarded in the iteration, were written before it.
BoundBytes ComputeLinkBound(const Schedule& schedule, const BoundOptions& options);

/// The bound of a schedule that has been looked at, for the memory that `uses` has above.
BoundBytes ComputeLinkBound(const PageVisits& visits,
                            const PageUses& uses,
                            std::uint64_t page_bytes,
                            int iterations_max);

}  // namespace sluice::analysis
