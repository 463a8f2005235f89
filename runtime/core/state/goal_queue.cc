#include "runtime/core/state/goal_queue.h"

#include "base/check.h"

namespace sluice::core {

void GoalQueue::Insert(const Goal& goal, PageIndex page, Position now) {
  const Key place{goal.position, page};
  TierGoals& tier = tiers_[goal.tier];
  ++tier.goals;
  if (goal.not_before > now) {
    waiting_.emplace(goal.not_before, goal.tier, place);
  } else {
    tier.ready.insert(place);
  }
}

void GoalQueue::Erase(const Goal& goal, PageIndex page) {
  const Key place{goal.position, page};
  TierGoals& tier = tiers_[goal.tier];
  --tier.goals;
  if (tier.ready.erase(place) > 0) return;
  SLUICE_CHECK(waiting_.erase({goal.not_before, goal.tier, place}) == 1,
               "a goal is queued as it is");
}

void GoalQueue::Wake(Position now) {
  while (!waiting_.empty() && std::get<Position>(*waiting_.begin()) <= now) {
    const auto [not_before, tier, place] = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    tiers_[tier].ready.insert(place);
  }
}

std::uint64_t GoalQueue::size() const {
  std::uint64_t goals = 0;
  for (const TierGoals& tier : tiers_) goals += tier.goals;
  return goals;
}

std::optional<GoalQueue::Key> GoalQueue::FirstAfter(TierIndex tier,
                                                    const std::optional<Key>& last) const {
  const auto& ready = tiers_[tier].ready;
  const auto found = last.has_value() ? ready.upper_bound(*last) : ready.begin();
  if (found == ready.end()) return std::nullopt;
  return *found;
}

}  // namespace sluice::core
