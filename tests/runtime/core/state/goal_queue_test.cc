#include "runtime/core/state/goal_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::core {
namespace {

using Key = GoalQueue::Key;

Goal GoalAt(TierIndex tier, Position position, Position not_before = 0) {
  return {.tier = tier, .position = position, .not_before = not_before};
}

/// All that the tier has and that do not wait, in their order.
std::vector<Key> ReadyIn(const GoalQueue& queue, TierIndex tier) {
  std::vector<Key> places;
  for (auto place = queue.FirstAfter(tier, std::nullopt); place.has_value();
       place = queue.FirstAfter(tier, place)) {
    places.push_back(*place);
  }
  return places;
}

TEST(GoalQueueTest, EachTierHasItsOwnInTheOrderOfPositionsAndPages) {
  GoalQueue queue(2);
  queue.Insert(GoalAt(0, 7), 3, 1);
  queue.Insert(GoalAt(0, 5), 9, 1);
  queue.Insert(GoalAt(0, 5), 4, 1);
  queue.Insert(GoalAt(1, 6), 1, 1);
  EXPECT_EQ(ReadyIn(queue, 0), (std::vector<Key>{{5, 4}, {5, 9}, {7, 3}}));
  EXPECT_EQ(ReadyIn(queue, 1), (std::vector<Key>{{6, 1}}));
}

TEST(GoalQueueTest, AGoalThatWaitsForAPositionIsNotSeenBefore) {
  GoalQueue queue(1);
  queue.Insert(GoalAt(0, 20, 12), 1, 10);
  queue.Insert(GoalAt(0, 21, 11), 2, 10);
  queue.Insert(GoalAt(0, 22, 10), 3, 10);
  EXPECT_EQ(ReadyIn(queue, 0), (std::vector<Key>{{22, 3}}));
  queue.Wake(11);
  EXPECT_EQ(ReadyIn(queue, 0), (std::vector<Key>{{21, 2}, {22, 3}}));
  queue.Wake(50);
  EXPECT_EQ(ReadyIn(queue, 0), (std::vector<Key>{{20, 1}, {21, 2}, {22, 3}}));
}

TEST(GoalQueueTest, AnErasedGoalIsGoneWhetherItWaitsOrNot) {
  GoalQueue queue(2);
  const Goal waits = GoalAt(1, 20, 12);
  const Goal woken = GoalAt(1, 21, 11);
  queue.Insert(waits, 1, 10);
  queue.Insert(woken, 2, 10);
  EXPECT_TRUE(queue.empty(0));
  queue.Wake(11);
  queue.Erase(woken, 2);
  EXPECT_FALSE(queue.empty(1));
  queue.Erase(waits, 1);
  EXPECT_TRUE(queue.empty(1));
  queue.Wake(50);
  EXPECT_EQ(ReadyIn(queue, 1), std::vector<Key>());
}

}  // namespace
}  // namespace sluice::core
