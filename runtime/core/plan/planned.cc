#include <algorithm>
#include <utility>

#include "runtime/core/machine/core_impl.h"

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

void Core::Impl::On(const AdoptPlan& event) {
  if (event.plan == nullptr || !book_.Has(event.key)) {
    plans_.erase(event.key);
  } else {
    plans_[event.key] = event.plan;
  }
  if (book_.Running(event.key)) FollowPlan(event.key, false);
}

PlanInput Core::Impl::RecordedPlan(KeyIndex key) const {
  PlanInput input;
  input.recording = book_.FingerprintOf(key);
  input.items = book_.Items(key);
  input.objective = options_.objective;
  for (TierIndex t = 0; t < tiers_.size(); ++t) input.frames.push_back(OpFramesMax(t));
  return input;
}

/// Follows the plan of the key, from the begin of an iteration or from the middle of one, when a
/// plan comes. Moves of earlier steps are left to the pump. `moved`: the iteration is not the
/// expected one.
///
/// A plan that begins finds pages that others left. Those that it has come again before their next
/// use are let go, the furthest first; without their frames, pages would leave that it keeps. (With
/// several links this gained nothing, as pages leave there for other reasons, too.)
void Core::Impl::FollowPlan(KeyIndex key, bool moved) {
  if (moved) LeavePlan();
  const auto found = plans_.find(key);
  const bool fits = found != plans_.end() && book_.following() &&
                    found->second->leaves.size() == book_.length() &&
                    found->second->recording == book_.FingerprintOf(key);
  if (!fits) return LeavePlan();
  const bool changes = plan_ != found->second;
  if (moved || changes) plan_since_ = book_.base();
  plan_ = found->second;
  if (!changes || last_tier() > 1) return;
  tiers_[0].let_go.clear();
  for (std::size_t ahead = plan_->fetches.size(); ahead-- > 1;) {
    const Position position = book_.now() + ahead;
    for (const PlannedFetch& fetch : plan_->fetches[PlannedStep(position)]) {
      for (PageIndex i = fetch.first_page; i < fetch.first_page + fetch.pages; ++i) {
        const DueLeave due{{i, 1, 0}, position + fetch.distance};
        if (IsLetGo(0, due)) tiers_[0].let_go.push_back(due);
      }
    }
  }
}

std::size_t Core::Impl::PlannedStep(Position position) const {
  return (position - plan_since_) % plan_->leaves.size();
}

/// Leaves the plan. Moves that it has begun come to their end; no more are begun.
void Core::Impl::LeavePlan() {
  plan_ = nullptr;
  for (TierState& state : tiers_) {
    for (std::deque<DueLeave>* due : {&state.leaves, &state.cleans, &state.let_go}) due->clear();
    state.brought_up.clear();
    state.homes.Stop();
  }
  late_.clear();
}

/// Drops plans of schedules that are not kept any more.
void Core::Impl::DropPlans() {
  absl::erase_if(plans_, [this](const auto& entry) { return !book_.Has(entry.first); });
}

void Core::Impl::TakePlannedStep(Position position) {
  if (plan_ == nullptr) return;
  for (TierIndex t = 0; t < tiers_.size() && PlannedStep(position) == 0; ++t) {
    TierState& state = tiers_[t];
    if (!state.keeps_mappings) continue;
    const auto is_mapped = [&](PageIndex page) {
      return pages_[page].was_mapped_to[t] != kNoFrame;
    };
    const std::uint64_t moved = state.mappings.again - state.mappings.in_place;
    state.homes.BeginIteration(plan_->recording, state.pool, is_mapped, moved);
  }
  for (const PlannedFetch& fetch : plan_->fetches[PlannedStep(position)]) {
    FetchPlanned(fetch, position + fetch.distance);
  }
}

void Core::Impl::FetchPlanned(const PlannedFetch& fetch, Position position) {
  for (PageIndex i = fetch.first_page; i < fetch.first_page + fetch.pages; ++i) {
    const Page& p = page(i);
    if (!p.exists || p.dying || p.lost || !p.content || p.given_up) continue;
    if (p.next_use < position) continue;  // the page is used before, and so will be there
    StayPlanned(i, fetch.tier, position);
    if (!IsAbove(p, fetch.tier)) AddGoal(i, Goal{fetch.tier, fetch.mode, fetch.map, position});
  }
}

/// Keeps a page that was to leave before, and has not yet. If a ticket waits for its frame, it
/// leaves and comes back.
void Core::Impl::StayPlanned(PageIndex index, TierIndex tier, Position position) {
  PageCopy& copy = page(index).copies[tier];
  copy.stays_for = position;
  if (!copy.leaving || tiers_[tier].starved_arrival != UINT64_MAX) return;
  copy.leaving = false;
  UpdateFacts(index);
}

/// The step's pages have been given back. One that began before the plan is none of it.
void Core::Impl::EndPlannedStep(Position position) {
  if (plan_ == nullptr || position == kNever || position < plan_since_) return;
  for (const DueLeave& late : std::exchange(late_, {})) AddLeave(late);
  for (const PlannedLeave& leave : plan_->leaves[PlannedStep(position)]) {
    AddLeave({leave, pages_[leave.first_page].next_use});
  }
}

/// Adds a leave. Pages that leave the fastest tier for nothing do so at once, whatever waits for
/// the link.
void Core::Impl::AddLeave(const DueLeave& due) {
  const PlannedLeave& leave = due.leave;
  for (PageIndex i = 0; leave.tier == 0 && !leave.stays && i < leave.pages; ++i) {
    const PageIndex index = leave.first_page + i;
    const Page& p = pages_[index];
    const bool may = p.copies[0].candidate && p.queue.empty() && !p.goal_queued;
    if (!may || !IsDue(due, index) || !FreeToLeave(p, 0) || IsToBeKeptBelow(index, 0)) continue;
    EvictFree(0, index, {});
  }
  TierState& state = tiers_[leave.tier];
  (leave.stays ? state.cleans : state.leaves).push_back(due);
}

/// Sends away the pages of each tier that are due, then writes those that are to stay. Both go in
/// order, as far as the link takes them.
void Core::Impl::ContinueLeaves() {
  for (TierState& state : tiers_) {
    if (ContinueLeaves(&state.leaves)) ContinueLeaves(&state.cleans);
  }
}

/// Whether nothing else leaves for want of frames, as what is planned to leave goes on: to save
/// traffic, or where the last link binds.
bool Core::Impl::LeavesMakeRoom(TierIndex tier) const {
  if (tiers_[tier].leaves.empty() || tasks_.empty()) return false;
  return SavesTraffic() || (tier == 0 && FollowsPlan() && plan_->leaves_make_room);
}

/// Whether the plan has the page, when it leaves the tier above, stay in `tier` until its next use.
bool Core::Impl::IsKept(PageIndex index, TierIndex tier) const {
  const Position use = pages_[index].next_use;
  if (!FollowsPlan() || tier >= last_tier() || use == kNever || use < plan_since_) return false;
  return !plan_->ComesInto(tier, index, static_cast<std::uint32_t>(PlannedStep(use)));
}

/// Whether a page that could leave `tier` for nothing, as it is valid further down, has to be
/// copied one tier down. It would else have to be brought up again to there.
bool Core::Impl::IsToBeKeptBelow(PageIndex index, TierIndex tier) const {
  const Page& p = pages_[index];
  const auto below = static_cast<TierIndex>(tier + 1);
  const bool content = p.content && p.copies[tier].state == CopyState::kValid;
  const bool absent = p.lowest > tier && p.copies[below].state == CopyState::kNone;
  return content && absent && IsKept(index, below);
}

/// Whether nothing waits any more.
bool Core::Impl::ContinueLeaves(std::deque<DueLeave>* due) {
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
bool Core::Impl::IsDue(const DueLeave& due, PageIndex index) const {
  const Page& p = pages_[index];
  const bool stays = p.next_use != kNever && p.copies[due.leave.tier].stays_for == p.next_use;
  return p.next_use == due.next_use && !stays;
}

/// Whether the page is about to leave for the tier, or on its way there from above.
bool Core::Impl::IsComing(const Page& p, TierIndex tier) const {
  if (tier == 0) return false;
  const PageCopy& above = p.copies[tier - 1];
  return p.copies[tier].state == CopyState::kFilling || above.leaving ||
         (above.state == CopyState::kValid && p.next_use != kNever && p.queue.empty());
}

/// Begins with the first page; false when it has to wait for the link, or for room below.
bool Core::Impl::LeavePlanned(const DueLeave& due) {
  const PlannedLeave& leave = due.leave;
  const TierIndex tier = leave.tier;
  const PageIndex index = leave.first_page;
  Page& p = page(index);
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
  if (FreeToLeave(p, tier) && !kept) {
    if (!leave.stays) LetGo(index, due);
    return true;
  }
  if (p.lowest <= tier || tiers_[tier + 1].fenced) return true;
  const Purpose purpose = leave.stays ? Purpose::kClean : Purpose::kAhead;
  return StartEviction(tier, index, {.purpose = purpose, .page = index});
}

/// Lets a page go. Below the fastest tier it may stay until its frame is needed, as leaving costs
/// nothing then either.
void Core::Impl::LetGo(PageIndex index, const DueLeave& due) {
  const TierIndex tier = due.leave.tier;
  if (tier == 0) return EvictFree(tier, index, {});
  std::deque<DueLeave>& let_go = tiers_[tier].let_go;
  while (!let_go.empty() && !IsLetGo(tier, let_go.front())) let_go.pop_front();
  let_go.push_back({{index, 1, tier}, due.next_use});
}

bool Core::Impl::IsLetGo(TierIndex tier, const DueLeave& due) const {
  const Page& p = pages_[due.leave.first_page];
  const bool idle = p.exists && p.copies[tier].candidate && p.queue.empty() && !p.goal_queued;
  return idle && IsDue(due, due.leave.first_page) && FreeToLeave(p, tier);
}

/// Drops a page that was let go. Pages that come ahead displace no others. In the fastest tier, the
/// page is one whose next use comes after that of the claim. Returns whether there was such a page.
bool Core::Impl::DropLetGo(TierIndex tier, const Claim& claim) {
  std::deque<DueLeave>& let_go = tiers_[tier].let_go;
  while (!let_go.empty()) {
    const DueLeave due = let_go.front();
    if (tier == 0 && due.next_use < claim.position) break;
    let_go.pop_front();
    const PageIndex index = due.leave.first_page;
    if (!IsLetGo(tier, due) || Moves(index, tier, claim)) continue;
    EvictFree(tier, index, claim);
    return true;
  }
  return DropBroughtUp(tier, claim);
}

/// A plan counts no frame for what is above and used there next.
bool Core::Impl::DropBroughtUp(TierIndex tier, const Claim& claim) {
  std::set<PageIndex>& brought_up = tiers_[tier].brought_up;
  while (!brought_up.empty()) {
    const PageIndex index = *brought_up.begin();
    brought_up.erase(brought_up.begin());
    if (!IsAboveToo(pages_[index], tier) || Moves(index, tier, claim)) continue;
    EvictFree(tier, index, claim);
    return true;
  }
  return false;
}

/// Whether the tier's copy is one more of a page that is used next further up, where it is, and
/// comes back from there afterwards. A page that is valid further down would not.
bool Core::Impl::IsAboveToo(const Page& p, TierIndex tier) const {
  const bool idle = p.exists && p.content && p.copies[tier].candidate;
  return idle && p.next_tier < tier && UseAt(p, tier) == kNever && !FreeToLeave(p, tier);
}

}  // namespace sluice::core
