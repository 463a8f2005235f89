#include "runtime/core/plan/plan_follower.h"

#include <algorithm>
#include <utility>

#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

/// Whether the page is, or soon will be, in a tier above `tier`, where it is used next.
bool IsAbove(const Page& p, TierIndex tier) {
  return p.next_tier < tier &&
         std::any_of(p.copies.begin(), p.copies.begin() + tier, [](const PageCopy& copy) {
           return copy.state == CopyState::kValid || copy.state == CopyState::kFilling;
         });
}

}  // namespace

void PlanFollower::On(const AdoptPlan& event) {
  if (event.plan == nullptr || !m_.book.Has(event.key)) {
    plans_.erase(event.key);
  } else {
    plans_[event.key] = event.plan;
  }
  if (m_.book.Running(event.key)) FollowPlan(event.key, false);
}

PlanInput PlanFollower::RecordedPlan(KeyIndex key) const {
  PlanInput input;
  input.recording = m_.book.FingerprintOf(key);
  input.items = m_.book.Items(key);
  input.objective = m_.options.objective;
  for (TierIndex t = 0; t < m_.tiers.size(); ++t)
    input.frames.push_back(m_.capacity.OpFramesMax(t));
  m_.fixed_pages.LeaveOut(&input);
  return input;
}

void PlanFollower::FollowPlan(KeyIndex key, bool moved) {
  if (moved) LeavePlan();
  const auto found = plans_.find(key);
  const bool fits = found != plans_.end() && m_.book.following() &&
                    found->second->leaves.size() == m_.book.length() &&
                    found->second->recording == m_.book.FingerprintOf(key);
  if (!fits) return LeavePlan();
  const bool changes = plan_ != found->second;
  if (moved || changes) plan_since_ = m_.book.base();
  plan_ = found->second;
  if (!changes || m_.last_tier() > 1) return;
  m_.tiers[0].let_go.clear();
  for (std::size_t ahead = plan_->fetches.size(); ahead-- > 1;) {
    const Position position = m_.book.now() + ahead;
    for (const PlannedFetch& fetch : plan_->fetches[PlannedStep(position)]) {
      for (PageIndex i = fetch.first_page; i < fetch.first_page + fetch.pages; ++i) {
        const DueLeave due{{i, 1, 0}, position + fetch.distance};
        if (IsLetGo(0, due)) m_.tiers[0].let_go.push_back(due);
      }
    }
  }
}

std::size_t PlanFollower::PlannedStep(Position position) const {
  return (position - plan_since_) % plan_->leaves.size();
}

void PlanFollower::LeavePlan() {
  plan_ = nullptr;
  for (TierState& state : m_.tiers) {
    for (std::deque<DueLeave>* due : {&state.leaves, &state.cleans, &state.let_go}) due->clear();
    state.brought_up.clear();
    state.homes.Stop();
  }
  late_.clear();
}

void PlanFollower::DropPlans() {
  absl::erase_if(plans_, [this](const auto& entry) { return !m_.book.Has(entry.first); });
}

void PlanFollower::TakePlannedStep(Position position) {
  if (plan_ == nullptr) return;
  for (TierIndex t = 0; t < m_.tiers.size() && PlannedStep(position) == 0; ++t) {
    TierState& state = m_.tiers[t];
    if (!state.keeps_mappings) continue;
    const auto mapped_to = [&](PageIndex page) { return m_.pages[page].was_mapped_to[t]; };
    const std::uint64_t moved = state.mappings.again - state.mappings.in_place;
    state.homes.BeginIteration(plan_->recording, state.pool, mapped_to, moved);
  }
  for (const PlannedFetch& fetch : plan_->fetches[PlannedStep(position)]) {
    FetchPlanned(fetch, position + fetch.distance);
  }
}

void PlanFollower::FetchPlanned(const PlannedFetch& fetch, Position position) {
  for (PageIndex i = fetch.first_page; i < fetch.first_page + fetch.pages; ++i) {
    const Page& p = m_.page(i);
    if (!p.exists || p.dying || p.lost || !p.content || p.given_up) continue;
    if (p.next_use < position) continue;  // the page is used before, and so will be there
    StayPlanned(i, fetch.tier, position);
    if (!IsAbove(p, fetch.tier)) m_.goals.Add(i, Goal{fetch.tier, fetch.mode, fetch.map, position});
  }
}

/// Keeps a page that was to leave before, and has not yet. If a ticket waits for its frame, it
/// leaves and comes back.
void PlanFollower::StayPlanned(PageIndex index, TierIndex tier, Position position) {
  PageCopy& copy = m_.page(index).copies[tier];
  copy.stays_for = position;
  if (!copy.leaving || m_.tiers[tier].starved_arrival != UINT64_MAX) return;
  copy.leaving = false;
  m_.facts.Update(index);
}

void PlanFollower::EndPlannedStep(Position position) {
  if (plan_ == nullptr || position == kNever || position < plan_since_) return;
  for (const DueLeave& late : std::exchange(late_, {})) AddLeave(late);
  for (const PlannedLeave& leave : plan_->leaves[PlannedStep(position)]) {
    AddLeave({leave, m_.pages[leave.first_page].next_use});
  }
}

/// Adds a leave. Pages that leave the fastest tier for nothing do so at once, whatever waits for
/// the link.
void PlanFollower::AddLeave(const DueLeave& due) {
  const PlannedLeave& leave = due.leave;
  for (PageIndex i = 0; leave.tier == 0 && !leave.stays && i < leave.pages; ++i) {
    const PageIndex index = leave.first_page + i;
    const Page& p = m_.pages[index];
    const bool may = p.copies[0].candidate && p.queue.empty() && !p.goal_queued;
    if (!may || !IsDue(due, index) || !m_.facts.FreeToLeave(p, 0) || IsToBeKeptBelow(index, 0))
      continue;
    m_.eviction.EvictFree(0, index, {});
  }
  TierState& state = m_.tiers[leave.tier];
  (leave.stays ? state.cleans : state.leaves).push_back(due);
}

void PlanFollower::ContinueLeaves() {
  for (TierState& state : m_.tiers) {
    if (ContinueLeaves(&state.leaves)) ContinueLeaves(&state.cleans);
  }
}

bool PlanFollower::SavesTraffic() const {
  return FollowsPlan() && m_.options.objective == Objective::kTraffic;
}

bool PlanFollower::LeavesMakeRoom(TierIndex tier) const {
  if (m_.tiers[tier].leaves.empty() || m_.tasks.empty()) return false;
  return SavesTraffic() || (tier == 0 && FollowsPlan() && plan_->leaves_make_room);
}

bool PlanFollower::IsKept(PageIndex index, TierIndex tier) const {
  const Position use = m_.pages[index].next_use;
  if (!FollowsPlan() || tier >= m_.last_tier() || use == kNever || use < plan_since_) return false;
  return !plan_->ComesInto(tier, index, static_cast<std::uint32_t>(PlannedStep(use)));
}

/// Whether a page that could leave `tier` for nothing, as it is valid further down, has to be
/// copied one tier down. It would else have to be brought up again to there.
bool PlanFollower::IsToBeKeptBelow(PageIndex index, TierIndex tier) const {
  const Page& p = m_.pages[index];
  const auto below = static_cast<TierIndex>(tier + 1);
  const bool content = p.content && p.copies[tier].state == CopyState::kValid;
  const bool absent = p.lowest > tier && p.copies[below].state == CopyState::kNone;
  return content && absent && IsKept(index, below);
}

/// Whether nothing waits any more.
bool PlanFollower::ContinueLeaves(std::deque<DueLeave>* due) {
  while (!due->empty()) {
    PlannedLeave& next = due->front().leave;
    while (next.pages > 0) {
      if (!LeavePlanned(due->front())) return false;
      ++next.first_page;
      --next.pages;
    }
    due->pop_front();
  }
  return true;
}

/// Whether the page is still to do as planned: it has not been used since, and is not to be there
/// again by now.
bool PlanFollower::IsDue(const DueLeave& due, PageIndex index) const {
  const Page& p = m_.pages[index];
  const bool stays = p.next_use != kNever && p.copies[due.leave.tier].stays_for == p.next_use;
  return p.next_use == due.next_use && !stays;
}

/// Whether the page is about to leave for the tier, or on its way there from above.
bool PlanFollower::IsComing(const Page& p, TierIndex tier) const {
  if (tier == 0) return false;
  const PageCopy& above = p.copies[tier - 1];
  return p.copies[tier].state == CopyState::kFilling || above.leaving ||
         (above.state == CopyState::kValid && p.next_use != kNever && p.queue.empty());
}

/// Begins with the first page; false when it has to wait for the link, or for room below.
bool PlanFollower::LeavePlanned(const DueLeave& due) {
  const PlannedLeave& leave = due.leave;
  const TierIndex tier = leave.tier;
  const PageIndex index = leave.first_page;
  Page& p = m_.page(index);
  PageCopy& copy = p.copies[tier];
  if (!p.exists || !IsDue(due, index)) return true;
  if (copy.state != CopyState::kValid) {
    if (IsComing(p, tier)) late_.push_back({{index, 1, tier, leave.stays}, due.next_use});
    return true;
  }
  if (!p.queue.empty() || p.goal_queued) return true;  // wanted again
  if (!copy.candidate) {
    if (!leave.stays && copy.readers > 0 && !copy.mapping) copy.leaving = true;  // a write runs
    return true;
  }
  const bool kept = !leave.stays && IsToBeKeptBelow(index, tier);
  if (m_.facts.FreeToLeave(p, tier) && !kept) {
    if (!leave.stays) LetGo(index, due);
    return true;
  }
  if (p.lowest <= tier || m_.tiers[tier + 1].fenced) return true;
  const Purpose purpose = leave.stays ? Purpose::kClean : Purpose::kAhead;
  return m_.eviction.StartEviction(tier, index, {.purpose = purpose, .page = index});
}

/// Lets a page go. Below the fastest tier it may stay until its frame is needed, as leaving costs
/// nothing then either.
void PlanFollower::LetGo(PageIndex index, const DueLeave& due) {
  const TierIndex tier = due.leave.tier;
  if (tier == 0) return m_.eviction.EvictFree(tier, index, {});
  std::deque<DueLeave>& let_go = m_.tiers[tier].let_go;
  while (!let_go.empty() && !IsLetGo(tier, let_go.front())) let_go.pop_front();
  let_go.push_back({{index, 1, tier}, due.next_use});
}

bool PlanFollower::IsLetGo(TierIndex tier, const DueLeave& due) const {
  const Page& p = m_.pages[due.leave.first_page];
  const bool idle = p.exists && p.copies[tier].candidate && p.queue.empty() && !p.goal_queued;
  return idle && IsDue(due, due.leave.first_page) && m_.facts.FreeToLeave(p, tier);
}

bool PlanFollower::DropLetGo(TierIndex tier, const Claim& claim) {
  std::deque<DueLeave>& let_go = m_.tiers[tier].let_go;
  while (!let_go.empty()) {
    const DueLeave due = let_go.front();
    if (tier == 0 && due.next_use < claim.position) break;
    let_go.pop_front();
    const PageIndex index = due.leave.first_page;
    if (!IsLetGo(tier, due) || m_.victims.Moves(index, tier, claim)) continue;
    m_.eviction.EvictFree(tier, index, claim);
    return true;
  }
  return DropBroughtUp(tier, claim);
}

/// A plan counts no frame for what is above and used there next.
bool PlanFollower::DropBroughtUp(TierIndex tier, const Claim& claim) {
  std::set<PageIndex>& brought_up = m_.tiers[tier].brought_up;
  while (!brought_up.empty()) {
    const PageIndex index = *brought_up.begin();
    brought_up.erase(brought_up.begin());
    if (!IsAboveToo(m_.pages[index], tier) || m_.victims.Moves(index, tier, claim)) continue;
    m_.eviction.EvictFree(tier, index, claim);
    return true;
  }
  return false;
}

/// Whether the tier's copy is one more of a page that is used next further up, where it is, and
/// comes back from there afterwards. A page that is valid further down would not.
bool PlanFollower::IsAboveToo(const Page& p, TierIndex tier) const {
  const bool idle = p.exists && p.content && p.copies[tier].candidate;
  return idle && p.next_tier < tier && m_.facts.UseAt(p, tier) == kNever &&
         !m_.facts.FreeToLeave(p, tier);
}

}  // namespace sluice::core
