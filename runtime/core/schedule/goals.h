#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/core/state/goal_queue.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Pages that are wanted ahead of need, and the count of how each prefetch came out. Threads:
/// externally synchronised.
class Goals {
 public:
  explicit Goals(Machine& machine, std::size_t tiers) : m_(machine), goals_(tiers) {}

  void AddGoal(PageIndex index, const Goal& goal);
  void RemoveGoal(PageIndex index);
  void ReconsiderGoal(PageIndex index);
  bool GoalReached(const Page& p) const;
  void ContinueGoals();
  bool BlockedByQueue(const Page& p) const;
  void NoteComing(Page& p, TierIndex tier);
  void EndPrefetch(Page& p, std::uint64_t* counter);

  std::uint64_t size() const { return goals_.size(); }

 private:
  bool GoalsBlocked() const;
  std::optional<GoalQueue::Key> NextGoal(const std::optional<GoalQueue::Key>& last) const;
  void ContinueGoal(PageIndex index);
  void DequeueGoal(Page& p, PageIndex index);

  Machine& m_;
  GoalQueue goals_;
};

}  // namespace sluice::core
