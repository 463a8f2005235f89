#include <algorithm>

#include "runtime/core/machine/core_impl.h"

namespace sluice::core {
namespace {

/// Binary logarithm of the factor by which each tier looks further ahead than the one above it.
constexpr unsigned kWindowShift = 1;

/// A lower tier's window covers at least one of so many parts of its frames.
constexpr std::uint64_t kWindowsPerTier = 2;

}  // namespace

void Core::Impl::On(const PrefetchPages& event) {
  for (const PageRequest& request : event.requests) {
    const Page& p = page(request.page);
    if (!p.exists || p.lost || (!p.content && request.mode != PageMode::kOverwrite)) continue;
    const Position use = book_.now() + event.ops_ahead;
    Hint(request.page, Goal{request.tier, request.mode, request.map, use}, event.ops_ahead == 0);
  }
}

/// Notes a page that is wanted for another reason than its recorded use. Hints of later uses do not
/// displace it until it is used, or other ops are foreseen. `comes`: the page is fetched.
void Core::Impl::Hint(PageIndex index, const Goal& goal, bool comes) {
  Page& p = page(index);
  p.hint_tier = goal.tier;
  p.hinted = goal.position;
  if (comes) AddGoal(index, goal);
  UpdateFacts(index);
}

/// Takes the policy's own advice; false when it has none.
bool Core::Impl::FollowAdvice(TierIndex tier) {
  bool advised = false;
  for (std::uint32_t i = 0; i < options_.copies_in_flight_max; ++i) {
    const std::optional<FetchAdvice> advice = options_.policy->NextFetch(tier, book_.now());
    if (!advice.has_value()) break;
    advised = true;
    if (advice->page >= pages_.size()) continue;
    const Page& p = page(advice->page);
    if (!p.exists || p.dying || p.lost || !p.content || p.given_up) continue;
    Goal goal{tier, PageMode::kRead, p.next_tier == tier && p.next_map, book_.now()};
    goal.not_before = advice->not_before;
    Hint(advice->page, goal, true);
  }
  return advised;
}

void Core::Impl::RefreshNextUses() {
  for (PageIndex i = 0; i < pages_.size(); ++i) {
    if (!pages_[i].exists) continue;
    RemoveGoal(i);
    pages_[i].hint_tier = kNoTier;
    SetNextUse(i, book_.now());
    UpdateFacts(i);
  }
  for (TierState& state : tiers_) {
    state.cursor = book_.now();
    state.cursor_request = 0;
  }
}

/// Sets the page's next use. UpdateFacts tells the policy of it.
void Core::Impl::SetNextUse(PageIndex index, Position from) {
  Page& p = page(index);
  const NextUse next =
      book_.following() && !book_.empty() ? book_.NextUseFrom(index, from) : NextUse{};
  p.next_use = next.position;
  p.next_tier = next.tier;
  p.next_mode = next.mode;
  p.next_map = next.map;
  if (p.goal.tier != kNoTier && p.goal.position < from) RemoveGoal(index);
}

void Core::Impl::AddGoal(PageIndex index, const Goal& goal) {
  Page& p = page(index);
  RemoveGoal(index);
  if (p.held_tier != goal.tier && !WantedUpTo(p, p.held_tier, UINT64_MAX)) DropHeld(index);
  p.goal = goal;
  if (GoalReached(p)) {
    p.goal = Goal{};
    return;
  }
  p.goal_queued = true;
  goals_.Insert(goal, index, book_.now());
}

void Core::Impl::RemoveGoal(PageIndex index) {
  Page& p = page(index);
  DequeueGoal(p, index);
  p.goal = Goal{};
}

bool Core::Impl::GoalReached(const Page& p) const {
  const PageCopy& copy = p.copies[p.goal.tier];
  const bool placed = copy.state == CopyState::kPlaced && p.goal.mode == PageMode::kOverwrite;
  return (copy.state == CopyState::kValid || placed) && (!p.goal.map || copy.mapped);
}

/// Takes up the page's goal again after something about the page has changed: the one it has, or
/// the next use that a prefetch cursor has passed already.
void Core::Impl::ReconsiderGoal(PageIndex index) {
  Page& p = page(index);
  if (!p.exists) return;
  if (p.goal.tier != kNoTier) {
    const Goal goal = p.goal;
    AddGoal(index, goal);
    return;
  }
  if (p.given_up) return;
  if (options_.prefetch_ops == 0 || p.next_use == kNever || p.next_tier >= last_tier()) return;
  if (p.next_use >= tiers_[p.next_tier].cursor || p.lost) return;
  if (!p.content && p.next_mode != PageMode::kOverwrite) return;
  AddGoal(index, Goal{p.next_tier, p.next_mode, p.next_map, p.next_use});
}

/// Whether the page is held or awaited by tickets in a way that decides its fate without a goal.
bool Core::Impl::BlockedByQueue(const Page& p) const {
  return p.write_pinned || std::any_of(p.queue.begin(), p.queue.end(), [](const Need* need) {
           return !need->ticket->granted || IsWrite(need->request.mode);
         });
}

void Core::Impl::ContinueGoals() {
  goals_.Wake(book_.now());
  // Moving one page may end or renew the goals of others, so the place is kept by value.
  for (auto place = NextGoal(std::nullopt); place.has_value(); place = NextGoal(place)) {
    ContinueGoal(place->second);
    if (GoalsBlocked()) break;
  }
  if (holding_.empty()) return;
  for (const PageIndex index : std::vector<PageIndex>(holding_)) {
    if (page(index).goal_queued) ContinueGoal(index);
  }
}

/// The first after `last` of the goals that may be able to go on: where their tier is blocked only
/// those of pages on their way.
std::optional<GoalQueue::Key> Core::Impl::NextGoal(
    const std::optional<GoalQueue::Key>& last) const {
  std::optional<GoalQueue::Key> next;
  const auto consider = [&](const std::optional<GoalQueue::Key>& place) {
    if (place.has_value() && (!next.has_value() || *place < *next)) next = place;
  };
  for (TierIndex t = 0; t < tiers_.size(); ++t) {
    if (!tiers_[t].ahead_blocked) consider(goals_.FirstAfter(t, last));
  }
  for (const PageIndex index : holding_) {
    const Page& p = pages_[index];
    const GoalQueue::Key place{p.goal.position, index};
    if (p.goal_queued && (!last.has_value() || place > *last)) consider(place);
  }
  return next;
}

/// Whether every goal waits, but for those of pages on their way.
bool Core::Impl::GoalsBlocked() const {
  for (TierIndex t = 0; t < tiers_.size(); ++t) {
    if (!goals_.empty(t) && !tiers_[t].ahead_blocked) return false;
  }
  return true;
}

void Core::Impl::ContinueGoal(PageIndex index) {
  Page& p = page(index);
  TierState& state = tiers_[p.goal.tier];
  if (p.goal.not_before > book_.now()) return;
  // The page must not stay in a transit frame (I9), whoever has come to want it elsewhere, unless
  // it dies.
  const bool on_its_way = p.held_tier != kNoTier && !p.write_pinned && !Dies(p);
  if (BlockedByQueue(p) && !on_its_way) {
    DequeueGoal(p, index);  // a later pass takes it up when the queue has moved on
    return;
  }
  if (state.ahead_blocked && !on_its_way) return;
  const Claim claim{Purpose::kAhead, UINT64_MAX, p.goal.position, index};
  const Progress progress = Advance(index, p.goal, claim);
  if (progress == Progress::kBlocked) {
    state.ahead_blocked = true;
  } else if (progress == Progress::kReady) {
    RemoveGoal(index);
  } else {
    DequeueGoal(p, index);
  }
}

void Core::Impl::DequeueGoal(Page& p, PageIndex index) {
  if (!p.goal_queued) return;
  goals_.Erase(p.goal, index);
  p.goal_queued = false;
}

/// Walks the recorded ops from the cursor on and fetches pages that they need in `tier`. For ops of
/// faster tiers it stages pages that are below `tier`. It ends when frames or the window run out.
void Core::Impl::PrefetchInto(TierIndex tier) {
  TierState& state = tiers_[tier];
  if (!state.advised) {  // once per event, so that a policy without an end to its advice ends
    state.advised = true;
    if (FollowAdvice(tier)) pump_again_ = true;  // the advice's goals are taken up
  }
  if (options_.prefetch_ops == 0 || !book_.following() || book_.empty()) return;
  if (state.ahead_blocked || SavesTraffic()) return;
  if (state.cursor < book_.now()) {
    state.cursor = book_.now();
    state.cursor_request = 0;
  }
  const Position end = book_.now() + (Position{options_.prefetch_ops} << (kWindowShift * tier));
  while (state.cursor < end || WindowIsSmall(tier, state.cursor)) {
    const std::span<const PageRequest> step = book_.StepAt(state.cursor);
    for (; state.cursor_request < step.size(); ++state.cursor_request) {
      if (!WantAhead(tier, step[state.cursor_request], state.cursor)) return;
    }
    ++state.cursor;
    state.cursor_request = 0;
  }
}

/// Small ops need so little that the usual number of them leaves the links of a large tier idle:
/// there the window reaches on until what comes in fills a share of the tier.
bool Core::Impl::WindowIsSmall(TierIndex tier, Position end) const {
  if (tier == 0 || end >= book_.now() + book_.length()) return false;
  return book_.EntriesBetween(tier, book_.now(), end) * kWindowsPerTier < tiers_[tier].pool.limit();
}

/// Wants a page ahead. Returns false when nothing more can be fetched now.
bool Core::Impl::WantAhead(TierIndex tier, const PageRequest& request, Position position) {
  if (request.tier > tier || request.page >= pages_.size()) return true;
  Page& p = page(request.page);
  if (!p.exists || p.dying || p.lost || p.given_up || p.next_use != position) return true;
  const bool overwrite = request.mode == PageMode::kOverwrite;
  if (!p.content && !overwrite) return true;  // reads as zeros: nothing to fetch
  Goal goal{request.tier, request.mode, request.map, position};
  if (tier > request.tier) {
    if (overwrite) return true;
    for (TierIndex t = 0; t <= tier; ++t) {
      if (p.copies[t].state == CopyState::kValid || p.copies[t].state == CopyState::kFilling) {
        return true;
      }
    }
    goal = Goal{tier, PageMode::kRead, false, position};
  }
  RemoveGoal(request.page);
  p.goal = goal;
  if (GoalReached(p)) {
    p.goal = Goal{};
    return true;
  }
  if (BlockedByQueue(p)) return true;  // the goal is taken up when the queue has moved on
  const Claim claim{Purpose::kAhead, UINT64_MAX, position, request.page};
  const Progress progress = Advance(request.page, goal, claim);
  if (progress == Progress::kBlocked) {
    p.goal = Goal{};
    return false;
  }
  if (progress == Progress::kReady) p.goal = Goal{};
  return true;
}

/// The page that is used last of those that have to be written to leave and are not used before
/// `horizon`.
std::optional<PageIndex> Core::Impl::VictimToClean(TierIndex tier, Position horizon) const {
  const auto cleans = [&](PageIndex candidate) {
    const Page& p = pages_[candidate];
    return p.queue.empty() && !FreeToLeave(p, tier) && p.lowest > tier && UseAt(p, tier) >= horizon;
  };
  TellWant(tier, kNoPage);
  return Checked(tier, options_.policy->VictimToWrite(tier, online_ ? 0 : horizon, cleans), cleans);
}

/// Writes the pages that are used last, while a link has room, so that later evictions are free.
void Core::Impl::CleanAhead(TierIndex tier) {
  TierState& state = tiers_[tier];
  const auto target = static_cast<std::uint32_t>(options_.clean_share * state.pool.limit());
  const Position horizon = book_.now() + options_.prefetch_ops;
  const bool closed =
      tiers_[tier + 1].fenced || LinkFull(tier, static_cast<TierIndex>(tier + 1), Purpose::kClean);
  if (FollowsPlan() || closed) return;
  while (state.pool.free_count() + state.candidates_free + state.leaving + state.cleaning <
         target) {
    const std::optional<PageIndex> victim = VictimToClean(tier, horizon);
    if (!victim.has_value()) return;
    const Claim claim{Purpose::kClean, UINT64_MAX, UseAt(pages_[*victim], tier), *victim};
    if (!StartEviction(tier, *victim, claim)) return;
  }
}

/// One prefetch, however many hops it takes.
void Core::Impl::NoteComing(Page& p, TierIndex tier) {
  const bool goes_on = p.coming_tier != kNoTier || p.prefetched_tier != kNoTier;
  p.coming_tier = tier;
  p.prefetched_tier = kNoTier;
  if (goes_on) return;
  ++counters_.prefetch_issued;
  ++counters_.prefetch_open;
}

/// Counts how the page's prefetch came out, if it has one.
void Core::Impl::EndPrefetch(Page& p, std::uint64_t* counter) {
  if (p.coming_tier == kNoTier && p.prefetched_tier == kNoTier) return;
  p.coming_tier = kNoTier;
  p.prefetched_tier = kNoTier;
  --counters_.prefetch_open;
  ++*counter;
}

}  // namespace sluice::core
