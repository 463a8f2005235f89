#include "runtime/core/schedule/goals.h"

#include <algorithm>

#include "runtime/core/machine/machine.h"

namespace sluice::core {

void Goals::Add(PageIndex index, const Goal& goal) {
  Page& p = m_.page(index);
  Remove(index);
  if (p.held_tier != goal.tier && !m_.victims.WantedUpTo(p, p.held_tier, UINT64_MAX))
    m_.frames.DropHeld(index);
  p.goal = goal;
  if (GoalReached(p)) {
    p.goal = Goal{};
    return;
  }
  p.goal_queued = true;
  goals_.Insert(goal, index, m_.book.now());
}

void Goals::Remove(PageIndex index) {
  Page& p = m_.page(index);
  DequeueGoal(p, index);
  p.goal = Goal{};
}

bool Goals::GoalReached(const Page& p) const {
  const PageCopy& copy = p.copies[p.goal.tier];
  const bool placed = copy.state == CopyState::kPlaced && p.goal.mode == PageMode::kOverwrite;
  return (copy.state == CopyState::kValid || placed) && (!p.goal.map || copy.mapped);
}

void Goals::Reconsider(PageIndex index) {
  Page& p = m_.page(index);
  if (!p.exists) return;
  if (p.goal.tier != kNoTier) {
    const Goal goal = p.goal;
    Add(index, goal);
    return;
  }
  if (p.given_up) return;
  if (m_.options.prefetch_ops == 0 || p.next_use == kNever || p.next_tier >= m_.last_tier()) return;
  if (p.next_use >= m_.tiers[p.next_tier].cursor || p.lost) return;
  if (!p.content && p.next_mode != PageMode::kOverwrite) return;
  Add(index, Goal{p.next_tier, p.next_mode, p.next_map, p.next_use});
}

/// Whether the page is held or awaited by tickets in a way that decides its fate without a goal.
bool Goals::BlockedByQueue(const Page& p) const {
  return p.write_pinned || std::any_of(p.queue.begin(), p.queue.end(), [](const Need* need) {
           return !need->ticket->granted || IsWrite(need->request.mode);
         });
}

void Goals::Continue() {
  goals_.Wake(m_.book.now());
  // Moving one page may end or renew the goals of others, so the place is kept by value.
  for (auto place = NextGoal(std::nullopt); place.has_value(); place = NextGoal(place)) {
    ContinueGoal(place->second);
    if (GoalsBlocked()) break;
  }
  if (m_.holding.empty()) return;
  for (const PageIndex index : std::vector<PageIndex>(m_.holding)) {
    if (m_.page(index).goal_queued) ContinueGoal(index);
  }
}

/// The first after `last` of the goals that may be able to go on: where their tier is blocked only
/// those of pages on their way.
std::optional<GoalQueue::Key> Goals::NextGoal(const std::optional<GoalQueue::Key>& last) const {
  std::optional<GoalQueue::Key> next;
  const auto consider = [&](const std::optional<GoalQueue::Key>& place) {
    if (place.has_value() && (!next.has_value() || *place < *next)) next = place;
  };
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    if (!m_.tiers[t].ahead_blocked) consider(goals_.FirstAfter(t, last));
  }
  for (const PageIndex index : m_.holding) {
    const Page& p = m_.pages[index];
    const GoalQueue::Key place{p.goal.position, index};
    if (p.goal_queued && (!last.has_value() || place > *last)) consider(place);
  }
  return next;
}

/// Whether every goal waits, but for those of pages on their way.
bool Goals::GoalsBlocked() const {
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    if (!goals_.empty(t) && !m_.tiers[t].ahead_blocked) return false;
  }
  return true;
}

void Goals::ContinueGoal(PageIndex index) {
  Page& p = m_.page(index);
  TierState& state = m_.tiers[p.goal.tier];
  if (p.goal.not_before > m_.book.now()) return;
  // The page must not stay in a transit frame (I9), whoever has come to want it elsewhere, unless
  // it dies.
  const bool on_its_way = p.held_tier != kNoTier && !p.write_pinned && !Dies(p);
  if (BlockedByQueue(p) && !on_its_way) {
    DequeueGoal(p, index);  // a later pass takes it up when the queue has moved on
    return;
  }
  if (state.ahead_blocked && !on_its_way) return;
  const Claim claim{Purpose::kAhead, UINT64_MAX, p.goal.position, index};
  const Progress progress = m_.movement.Advance(index, p.goal, claim);
  if (progress == Progress::kBlocked) {
    state.ahead_blocked = true;
  } else if (progress == Progress::kReady) {
    Remove(index);
  } else {
    DequeueGoal(p, index);
  }
}

void Goals::DequeueGoal(Page& p, PageIndex index) {
  if (!p.goal_queued) return;
  goals_.Erase(p.goal, index);
  p.goal_queued = false;
}

void Goals::NoteComing(Page& p, TierIndex tier) {
  const bool goes_on = p.coming_tier != kNoTier || p.prefetched_tier != kNoTier;
  p.coming_tier = tier;
  p.prefetched_tier = kNoTier;
  if (goes_on) return;
  ++m_.counters.prefetch_issued;
  ++m_.counters.prefetch_open;
}

void Goals::EndPrefetch(Page& p, std::uint64_t* counter) {
  if (p.coming_tier == kNoTier && p.prefetched_tier == kNoTier) return;
  p.coming_tier = kNoTier;
  p.prefetched_tier = kNoTier;
  --m_.counters.prefetch_open;
  ++*counter;
}

bool Goals::TryNow(PageIndex index, const Goal& goal) {
  Remove(index);
  Page& p = m_.page(index);
  p.goal = goal;
  if (GoalReached(p)) {
    p.goal = Goal{};
    return true;
  }
  if (BlockedByQueue(p)) return true;  // the goal is taken up when the queue has moved on
  const Claim claim{Purpose::kAhead, UINT64_MAX, goal.position, index};
  const Progress progress = m_.movement.Advance(index, goal, claim);
  if (progress != Progress::kInFlight) p.goal = Goal{};
  return progress != Progress::kBlocked;
}

}  // namespace sluice::core
