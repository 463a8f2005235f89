#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/core/state/goal_queue.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Pages that are wanted ahead of need, and the count of how each prefetch came out. Threads:
/// externally synchronised.
class Goals {
 public:
  Goals(ResidencyMachine& machine, std::size_t tiers) : m_(machine), goals_(tiers) {}

  /// Gives the page the goal, and queues it, unless it is reached. An earlier goal is gone.
  void Add(PageIndex index, const Goal& goal);
  /// Takes the page's goal away, if it has one.
  void Remove(PageIndex index);
  /// Brings the page a step nearer to the goal at once, without queueing it. Returns false if it is
  /// blocked, and nothing more can be fetched now.
  bool TryNow(PageIndex index, const Goal& goal);
  /// Takes up the page's goal again after something about the page has changed: the one it has, or
  /// the next use that a prefetch cursor has passed already.
  void Reconsider(PageIndex index);
  /// Moves pages with goals on, in the order of their use, as far as frames and links allow.
  void Continue();
  /// Counts a prefetch that begins, once however many hops it takes.
  void NoteComing(Page& p, TierIndex tier);
  /// Counts how the page's prefetch came out, if it has one.
  void EndPrefetch(Page& p, std::uint64_t* counter);

  std::uint64_t size() const { return goals_.size(); }

 private:
  bool BlockedByQueue(const Page& p) const;
  bool GoalReached(const Page& p) const;
  bool GoalsBlocked() const;
  std::optional<GoalQueue::Key> NextGoal(const std::optional<GoalQueue::Key>& last) const;
  void ContinueGoal(PageIndex index);
  void DequeueGoal(Page& p, PageIndex index);

  ResidencyMachine& m_;
  GoalQueue goals_;
};

}  // namespace sluice::core
