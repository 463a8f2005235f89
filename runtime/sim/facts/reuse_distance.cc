#include "runtime/sim/facts/reuse_distance.h"

#include <algorithm>
#include <limits>

namespace sluice::sim {
namespace {

/// Sums over a sequence whose elements change (a Fenwick tree).
class PrefixSums {
 public:
  explicit PrefixSums(std::size_t size) : tree_(size + 1, 0) {}

  void Add(std::size_t index, std::uint64_t value) {
    for (std::size_t i = index + 1; i < tree_.size(); i += i & (~i + 1)) tree_[i] += value;
  }
  void Subtract(std::size_t index, std::uint64_t value) { Add(index, ~value + 1); }
  /// Sum of the elements 0 to index.
  std::uint64_t Through(std::size_t index) const {
    std::uint64_t sum = 0;
    for (std::size_t i = index + 1; i > 0; i -= i & (~i + 1)) sum += tree_[i];
    return sum;
  }

 private:
  std::vector<std::uint64_t> tree_;
};

constexpr std::size_t kNotYet = std::numeric_limits<std::size_t>::max();

/// Goes through ops in order, over several iterations.
class ReuseMeter {
 public:
  ReuseMeter(const Extents& extents,
             const OpVisits& visits,
             const Lifetimes& lifetimes,
             std::size_t positions)
      : extents_(extents),
        visits_(visits),
        lifetimes_(lifetimes),
        last_use_(extents.size(), kNotYet),
        touched_(positions) {}

  /// `reuses`: where to note what is used again; may be null.
  void Visit(std::size_t op, std::size_t position, std::vector<Reuse>* reuses) {
    before_.clear();
    for (const std::uint32_t extent : visits_.Of(op)) before_.push_back(Move(extent, op, position));
    if (reuses == nullptr) return;
    const std::span<const std::uint32_t> touched = visits_.Of(op);
    const std::uint64_t all = touched_.Through(position);
    for (std::size_t i = 0; i < touched.size(); ++i) {
      if (before_[i] == kNotYet) continue;
      reuses->push_back({all - touched_.Through(before_[i]),
                         extents_.bytes(touched[i]),
                         static_cast<std::uint32_t>(op)});
    }
  }

 private:
  /// Notes that the extent's last use is now. Returns the use before, or kNotYet when its content
  /// is new.
  std::size_t Move(std::uint32_t extent, std::size_t op, std::size_t position) {
    std::size_t before = last_use_[extent];
    const std::size_t iteration = position - op;
    // Content of the iteration before was other content, and stays touched at its time.
    if (!lifetimes_.extents[extent].persistent && before < iteration) before = kNotYet;
    if (before != kNotYet) touched_.Subtract(before, extents_.bytes(extent));
    touched_.Add(position, extents_.bytes(extent));
    last_use_[extent] = position;
    return before;
  }

  const Extents& extents_;
  const OpVisits& visits_;
  const Lifetimes& lifetimes_;
  /// The position of each extent's last use.
  std::vector<std::size_t> last_use_;
  /// Bytes that were used at each position, and not since.
  PrefixSums touched_;
  std::vector<std::size_t> before_;
};

}  // namespace

std::vector<Reuse> MeasureReuse(const Extents& extents,
                                const OpVisits& visits,
                                const Lifetimes& lifetimes) {
  const std::size_t ops = visits.begin.size() - 1;
  ReuseMeter meter(extents, visits, lifetimes, 2 * ops);
  std::vector<Reuse> reuses;
  for (std::size_t op = 0; op < ops; ++op) meter.Visit(op, op, nullptr);
  for (std::size_t op = 0; op < ops; ++op) meter.Visit(op, ops + op, &reuses);
  std::sort(reuses.begin(), reuses.end(), [](const Reuse& a, const Reuse& b) {
    return a.distance_bytes < b.distance_bytes;
  });
  return reuses;
}

std::uint64_t ReuseQuantile(const std::vector<Reuse>& reuses, double share) {
  std::uint64_t all = 0;
  for (const Reuse& reuse : reuses) all += reuse.bytes;
  std::uint64_t covered = 0;
  for (const Reuse& reuse : reuses) {
    covered += reuse.bytes;
    if (static_cast<double>(covered) >= share * static_cast<double>(all)) {
      return reuse.distance_bytes;
    }
  }
  return reuses.empty() ? 0 : reuses.back().distance_bytes;
}

}  // namespace sluice::sim
