#pragma once

#include <cstdint>
#include <vector>

#include "runtime/analysis/bounds/page_uses.h"
#include "runtime/analysis/bounds/page_visits.h"
#include "sluice/schedule.h"

/// Lower bounds on the bytes that any schedule of transfers moves over one link. Bounds on time are
/// in time_bound.h; docs/bounds.md says how they belong together.
///
/// Note [Why these are bounds]
/// A link has memory above it that holds at most M bytes, that is C whole pages. A page is above as
/// a whole or not at all, an op needs all of its pages above at once, and the key's iteration
/// repeats.
///
/// In. Between two uses a page either stays above, or is fetched for the second use; a use whose
/// old content is dead (first use after a discard, or an overwrite with nothing else alive in the
/// page) costs nothing.
///
/// Staying is an interval over ops, every kept interval saves one fetch, and at each op the
/// intervals that cross it and the op's own pages share C frames. Dropping the interval with the
/// furthest end whenever an op overflows keeps the largest possible number of intervals (all save
/// the same), so F(n), counted that way from an empty tier, is the least number of fetches for n
/// iterations.
///
/// A run that starts with content above can be turned into one that starts empty by fetching that
/// content first, at most C pages; hence any n iterations move at least F(n) - C pages. MIN is
/// deterministic, so once it keeps at the end of iteration k + p what it kept at the end of k,
/// F(n + p) = F(n) + F(k + p) - F(k) from there on, and in the long run an iteration moves at least
/// (F(k + p) - F(k)) / p.
///
/// A write below the link (a tensor leased to a lower tier) makes the copy above stale, so nothing
/// is saved by keeping it. Any n gives a bound per iteration; the largest is taken.
///
/// Out. Take one op of the iteration, and the pages that hold at that moment content that this
/// iteration wrote above the link and that is read later. All of them that do not fit beside the
/// op's own pages are below, so their content crossed the link since it was written, which was less
/// than one iteration ago; the next iteration writes it anew. So every iteration moves as much.
///
/// In addition, content written above and read next by an op that runs below crosses in every
/// iteration wherever the frames are; such pages count once: either as that, or in the excess.
///
/// What is left out keeps it a bound: bytes rather than pages decide what is alive, an op whose
/// pages exceed M cannot have held them at once and is taken page by page, and prefetches that are
/// undone or copies that are kept twice only move more.

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
