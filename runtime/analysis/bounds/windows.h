#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Note [Windows]
/// Op i takes c(i) seconds and holds the pages W(i); C frames are above the link. Take two ops i <
/// j of a lane, j at most an iteration later, and the gap from the end of i to the start of j.
///
/// In. When i ends, W(i) still holds its frames, so at most C - |W(i)| pages are above beside it,
/// those in flight included. Let these be the ones that suit best: of all pages whose content is
/// needed after i, those whose next use comes first. That is MIN (bound.h), all intervals having
/// begun; what it fetches for the ops i + 1 .. j is the least.
///
/// Each of these fetches begins after the end of i, else the page would hold a frame then, and ends
/// before j starts. So the link moves in(i, j) pages within the gap. One walk from i gives all j.
///
/// Out. Take what the ops i .. j - 1 write above, each write until the content is needed last,
/// meets an op below or the page is written above again. If it is not above at some op in between
/// where it is needed still, it was copied out after its op ended and before that op starts. At
/// each op k at most C - |W(k)| of them are above beside W(k), and those in W(k) itself may be too.
///
/// Each is an interval; the greatest number that can stay throughout is found as before. (Those
/// that are copied, but which k holds, are given a frame for nothing, which only raises it.) The
/// rest, and what ops below meet up to j, is out(i, j), copied within the gap. Writes of one page
/// count once each, as each copy out is made between its write and the next.
///
/// So gap(i, j) >= max(c(i + 1) + ... + c(j - 1), each link's seconds for in(i, j) and out(i, j)).
///
/// Chains. A chain of ops a < b < ... < z, where z is a some iterations later, divides this time
/// into ops and gaps without overlap. So these m iterations take at least c(a) + gap(a, b) + c(b) +
/// ..., on average 1 / m of it. Every closed chain is a bound, so nothing is lost in truth if a
/// better one is missed. Steps i, i + 1 are chains, too, so windows bound at least what compute
/// does.

namespace sluice::analysis {

/// Gaps between ops of one lane, some of which are *nodes*. A gap is the least time from the end of
/// a node to the start of a later one, at most an iteration on.
class GapTable {
 public:
  /// `op_seconds` of one iteration; `nodes` are indices of ops, rising, one at least.
  GapTable(std::span<const double> op_seconds, std::vector<std::uint32_t> nodes);

  std::size_t node_count() const { return nodes_.size(); }
  std::uint32_t op_count() const { return op_count_; }
  std::uint32_t node(std::size_t index) const { return nodes_[index]; }
  double op_seconds(std::size_t index) const { return node_seconds_[index]; }

  /// Number of ops from node `index` to the node that comes `ahead` nodes later (1 .. node_count).
  std::uint32_t OpsAhead(std::size_t index, std::size_t ahead) const;
  /// Gaps from a node. Entry `ahead` - 1 is the gap to the node `ahead` nodes later; at first it is
  /// the ops in between.
  std::span<double> From(std::size_t index);
  std::span<const double> From(std::size_t index) const;
  /// Takes the larger of each two entries. REQUIRES: tables of the same ops and nodes.
  void RaiseTo(const GapTable& other);

 private:
  std::uint32_t op_count_;
  std::vector<std::uint32_t> nodes_;
  std::vector<double> node_seconds_;
  std::vector<double> gaps_;
};

/// A chain of windows that ends, some iterations on, where it began.
struct WindowCycle {
  /// Seconds per iteration.
  double seconds = 0;
  std::uint32_t iterations = 1;
};

/// The chain with the greatest mean time among those that a longest path of several iterations
/// contains (Note [Windows]).
WindowCycle LongestCycle(const GapTable& gaps);

}  // namespace sluice::analysis
