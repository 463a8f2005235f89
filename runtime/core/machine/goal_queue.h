#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "runtime/core/machine/page.h"

namespace sluice::core {

/// Pages that are wanted ahead of need, tier by tier in the order of the positions at which they
/// are, and apart from them those that may not be fetched yet: of thousands that wait for their
/// position or for room in a tier none is looked at.
class GoalQueue {
 public:
  using Key = std::pair<Position, PageIndex>;

  explicit GoalQueue(std::size_t tiers) : tiers_(tiers) {}

  void Insert(const Goal& goal, PageIndex page, Position now);
  void Erase(const Goal& goal, PageIndex page);
  /// Those that wait for a position up to `now` wait no longer.
  void Wake(Position now);

  std::uint64_t size() const;
  /// Whether the tier has none, of those that wait neither.
  bool empty(TierIndex tier) const { return tiers_[tier].goals == 0; }
  /// The first that is not waiting and comes after `last` (nullopt: of all).
  std::optional<Key> FirstAfter(TierIndex tier, const std::optional<Key>& last) const;

 private:
  struct TierGoals {
    absl::btree_set<Key> ready;
    std::uint64_t goals = 0;
  };

  std::vector<TierGoals> tiers_;
  absl::btree_set<std::tuple<Position, TierIndex, Key>> waiting_;  ///< not before it, where
};

}  // namespace sluice::core
