#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::analysis {

/// For the ops of one lane, some of them being *nodes*: the least time from the end of each node to
/// the start of a later one, at most an iteration on.
class GapTable {
 public:
  /// `op_seconds` of one iteration; `nodes` are indices of ops, rising, one at least.
  GapTable(std::span<const double> op_seconds, std::vector<std::uint32_t> nodes);

  std::size_t node_count() const { return nodes_.size(); }
  std::uint32_t op_count() const { return op_count_; }
  std::uint32_t node(std::size_t index) const { return nodes_[index]; }
  double op_seconds(std::size_t index) const { return node_seconds_[index]; }

  /// How many ops after node `index` the node is that comes `ahead` nodes later (1 .. node_count).
  std::uint32_t OpsAhead(std::size_t index, std::size_t ahead) const;
  /// Entry `ahead` - 1 is the gap to that node; at first the ops in between.
  std::span<double> From(std::size_t index);
  std::span<const double> From(std::size_t index) const;
  /// Takes the larger of each two entries. REQUIRES: the same ops and nodes.
  void RaiseTo(const GapTable& other);

 private:
  std::uint32_t op_count_;
  std::vector<std::uint32_t> nodes_;
  std::vector<double> node_seconds_;
  std::vector<double> gaps_;
};

/// A chain of windows that ends, some iterations on, where it began.
struct WindowCycle {
  /// Per iteration.
  double seconds = 0;
  std::uint32_t iterations = 1;
};

/// The chain with the greatest mean time among those that a longest path of several iterations
/// contains (docs/bounds.md, "Windows").
WindowCycle LongestCycle(const GapTable& gaps);

}  // namespace sluice::analysis
