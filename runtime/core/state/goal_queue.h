#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

/// Pages that are wanted ahead of need, tier by tier in the order of the positions of their use.
/// Pages that may not be fetched yet are kept apart. So none of the thousands that wait for their
/// position, or for room in a tier, is looked at.
class GoalQueue {
 public:
  using Key = std::pair<Position, PageIndex>;

  explicit GoalQueue(std::size_t tiers) : tiers_(tiers) {}

  void Insert(const Goal& goal, PageIndex page, Position now);
  void Erase(const Goal& goal, PageIndex page);
  /// Ends the wait of goals that wait for a position up to `now`.
  void Wake(Position now);

  std::uint64_t size() const;
  /// Whether the tier has no goal, neither a ready nor a waiting one.
  bool empty(TierIndex tier) const { return tiers_[tier].goals == 0; }
  /// The first ready goal that comes after `last` (nullopt: the first of all).
  std::optional<Key> FirstAfter(TierIndex tier, const std::optional<Key>& last) const;

 private:
  struct TierGoals {
    absl::btree_set<Key> ready;
    std::uint64_t goals = 0;
  };

  std::vector<TierGoals> tiers_;
  /// Goals that wait: position before which each may not be fetched, tier, goal.
  absl::btree_set<std::tuple<Position, TierIndex, Key>> waiting_;
};

}  // namespace sluice::core
