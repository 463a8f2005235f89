#include "runtime/analysis/bounds/windows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace sluice::analysis {
namespace {

/// Iterations of the longest path. Its middle ones settle; the first and the last may not.
constexpr std::size_t kRounds = 4;
/// Means that differ by less are equal.
constexpr double kRounding = 1e-12;

/// A node of the unrolled iterations on the longest path to the last one.
struct PathNode {
  std::size_t position = 0;
  double seconds = 0;
};

/// The longest path from node `first` to the same node `rounds` iterations on. The last node comes
/// first.
std::vector<PathNode> LongestPath(const GapTable& gaps, std::size_t first, std::size_t rounds) {
  const std::size_t nodes = gaps.node_count();
  std::vector<double> longest(rounds * nodes + 1, -1);
  longest[0] = 0;
  std::vector<std::size_t> previous(longest.size(), 0);
  for (std::size_t from = 0; from + 1 < longest.size(); ++from) {
    const std::size_t node = (first + from) % nodes;
    const double begin = longest[from] + gaps.op_seconds(node);
    const std::span<const double> row = gaps.From(node);
    const std::size_t ahead_max = std::min(nodes, longest.size() - 1 - from);
    for (std::size_t ahead = 1; ahead <= ahead_max; ++ahead) {
      const double seconds = begin + row[ahead - 1];
      if (seconds <= longest[from + ahead]) continue;
      longest[from + ahead] = seconds;
      previous[from + ahead] = from;
    }
  }
  std::vector<PathNode> path;
  for (std::size_t at = longest.size() - 1; at > 0; at = previous[at]) {
    path.push_back({at, longest[at]});
  }
  path.push_back({0, 0});
  return path;
}

WindowCycle CycleBetween(const PathNode& begin, const PathNode& end, std::size_t nodes) {
  const std::size_t iterations = (end.position - begin.position) / nodes;
  return {(end.seconds - begin.seconds) / static_cast<double>(iterations),
          static_cast<std::uint32_t>(iterations)};
}

}  // namespace

GapTable::GapTable(std::span<const double> op_seconds, std::vector<std::uint32_t> nodes)
    : op_count_(static_cast<std::uint32_t>(op_seconds.size())),
      nodes_(std::move(nodes)),
      gaps_(nodes_.size() * nodes_.size(), 0) {
  SLUICE_CHECK(!nodes_.empty(), "windows have no node to begin at");
  for (const std::uint32_t node : nodes_) node_seconds_.push_back(op_seconds[node]);
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    const std::span<double> row = From(index);
    double between = 0;
    std::uint32_t op = nodes_[index] + 1;
    for (std::size_t ahead = 1; ahead <= row.size(); ++ahead) {
      const std::uint32_t end = nodes_[index] + OpsAhead(index, ahead);
      for (; op < end; ++op) between += op_seconds[op % op_count_];
      row[ahead - 1] = between;
    }
  }
}

std::uint32_t GapTable::OpsAhead(std::size_t index, std::size_t ahead) const {
  const std::size_t target = index + ahead;
  const bool wraps = target >= nodes_.size();
  return nodes_[wraps ? target - nodes_.size() : target] + (wraps ? op_count_ : 0) - nodes_[index];
}

std::span<double> GapTable::From(std::size_t index) {
  return std::span(gaps_).subspan(index * nodes_.size(), nodes_.size());
}

std::span<const double> GapTable::From(std::size_t index) const {
  return std::span(gaps_).subspan(index * nodes_.size(), nodes_.size());
}

void GapTable::RaiseTo(const GapTable& other) {
  SLUICE_CHECK(other.nodes_ == nodes_, "gap tables of other nodes");
  for (std::size_t i = 0; i < gaps_.size(); ++i) gaps_[i] = std::max(gaps_[i], other.gaps_[i]);
}

WindowCycle LongestCycle(const GapTable& gaps) {
  const std::size_t nodes = gaps.node_count();
  std::map<std::size_t, std::vector<PathNode>> visits;
  for (const PathNode& at : LongestPath(gaps, 0, kRounds)) {
    visits[at.position % nodes].push_back(at);
  }
  WindowCycle best;
  std::size_t best_node = 0;
  for (const auto& [node, places] : visits) {
    for (std::size_t begin = 1; begin < places.size(); ++begin) {
      for (std::size_t end = 0; end < begin; ++end) {
        const WindowCycle cycle = CycleBetween(places[begin], places[end], nodes);
        if (cycle.seconds <= best.seconds) continue;
        best = cycle;
        best_node = node;
      }
    }
  }
  if (best.iterations == 1) return best;
  // Windows of equal means may alternate on the path, where one iteration would do.
  const double once = LongestPath(gaps, best_node, 1).front().seconds;
  return once >= best.seconds * (1 - kRounding) ? WindowCycle{once, 1} : best;
}

}  // namespace sluice::analysis
