#pragma once

#include <cstdint>
#include <vector>

#include "runtime/analysis/bounds/page_uses.h"

namespace sluice::analysis {

/// The pages that stay above a link at a moment, each until its next use. The pool drops the pages
/// that stay longest. All intervals save the same, so that leaves the most of them whenever too
/// many cross one moment.
class IntervalPool {
 public:
  /// `uses` outlives the pool.
  explicit IntervalPool(const PageUses& uses);

  void Clear();
  /// Inserts `pages` of an item, until its use at `end_op`, at most an iteration away. REQUIRES:
  /// the pool holds no pages of the item.
  void Insert(std::uint32_t item, std::uint64_t pages, std::uint32_t end_op);
  /// Removes an item. Returns the number of its pages.
  std::uint64_t Take(std::uint32_t item);
  /// Drops the `pages` pages that stay longest after `now_op`. REQUIRES: pages <= total().
  void DropFurthest(std::uint64_t pages, std::uint32_t now_op);
  std::uint64_t total() const { return total_; }
  /// Whether both pools hold the same pages of the same items until the same ops. REQUIRES: pools
  /// of the same uses.
  bool HoldsTheSameAs(const IntervalPool& other) const { return items_ == other.items_; }

 private:
  struct Interval {
    std::uint64_t pages = 0;
    std::uint32_t end_op = 0;  ///< op of the use; 0: there are no pages

    friend bool operator==(const Interval&, const Interval&) = default;
  };

  void Remove(std::uint32_t item, std::uint64_t pages);
  std::uint32_t FurthestEnd(std::uint32_t now_op) const;
  std::uint32_t LastEndUpTo(std::uint32_t op) const;

  const PageUses& uses_;
  std::vector<Interval> items_;
  /// Pages that end at each op, and one bit for each op that is not 0.
  std::vector<std::uint64_t> ending_;
  std::vector<std::uint64_t> bits_;
  std::uint64_t total_ = 0;
};

}  // namespace sluice::analysis
