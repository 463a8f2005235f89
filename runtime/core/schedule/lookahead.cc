#include "runtime/core/schedule/lookahead.h"

#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

/// Binary logarithm of the factor by which each tier looks further ahead than the one above it.
constexpr unsigned kWindowShift = 1;

/// A lower tier's window covers at least one of so many parts of its frames.
constexpr std::uint64_t kWindowsPerTier = 2;

}  // namespace

void Lookahead::On(const PrefetchPages& event) {
  for (const PageRequest& request : event.requests) {
    const Page& p = m_.page(request.page);
    if (!p.exists || p.lost || (!p.content && request.mode != PageMode::kOverwrite)) continue;
    const Position use = m_.book.now() + event.ops_ahead;
    Hint(request.page, Goal{request.tier, request.mode, request.map, use}, event.ops_ahead == 0);
  }
}

/// Notes a page that is wanted for another reason than its recorded use. Hints of later uses do not
/// displace it until it is used, or other ops are foreseen. `comes`: the page is fetched.
void Lookahead::Hint(PageIndex index, const Goal& goal, bool comes) {
  Page& p = m_.page(index);
  p.hint_tier = goal.tier;
  p.hinted = goal.position;
  if (comes) m_.goals.Add(index, goal);
  m_.facts.Update(index);
}

/// Takes the policy's own advice; false when it has none.
bool Lookahead::FollowAdvice(TierIndex tier) {
  bool advised = false;
  for (std::uint32_t i = 0; i < m_.options.copies_in_flight_max; ++i) {
    const std::optional<FetchAdvice> advice = m_.options.policy->NextFetch(tier, m_.book.now());
    if (!advice.has_value()) break;
    advised = true;
    if (advice->page >= m_.pages.size()) continue;
    const Page& p = m_.page(advice->page);
    if (!p.exists || p.dying || p.lost || !p.content || p.given_up) continue;
    Goal goal{tier, PageMode::kRead, p.next_tier == tier && p.next_map, m_.book.now()};
    goal.not_before = advice->not_before;
    Hint(advice->page, goal, true);
  }
  return advised;
}

void Lookahead::RefreshNextUses() {
  for (PageIndex i = 0; i < m_.pages.size(); ++i) {
    if (!m_.pages[i].exists) continue;
    m_.goals.Remove(i);
    m_.pages[i].hint_tier = kNoTier;
    SetNextUse(i, m_.book.now());
    m_.facts.Update(i);
  }
  for (TierState& state : m_.tiers) {
    state.cursor = m_.book.now();
    state.cursor_request = 0;
  }
}

void Lookahead::SetNextUse(PageIndex index, Position from) {
  Page& p = m_.page(index);
  const NextUse next =
      m_.book.following() && !m_.book.empty() ? m_.book.NextUseFrom(index, from) : NextUse{};
  p.next_use = next.position;
  p.next_tier = next.tier;
  p.next_mode = next.mode;
  p.next_map = next.map;
  if (p.goal.tier != kNoTier && p.goal.position < from) m_.goals.Remove(index);
}

void Lookahead::PrefetchInto(TierIndex tier) {
  TierState& state = m_.tiers[tier];
  if (!state.advised) {  // once per batch, so that a policy without an end to its advice ends
    state.advised = true;
    if (FollowAdvice(tier)) m_.pump_again = true;  // the advice's goals are taken up
  }
  if (m_.options.prefetch_ops == 0 || !m_.book.following() || m_.book.empty()) return;
  if (state.ahead_blocked || m_.plan_follower.SavesTraffic()) return;
  if (state.cursor < m_.book.now()) {
    state.cursor = m_.book.now();
    state.cursor_request = 0;
  }
  const Position end = m_.book.now() + (Position{m_.options.prefetch_ops} << (kWindowShift * tier));
  while (state.cursor < end || WindowIsSmall(tier, state.cursor)) {
    const std::span<const PageRequest> step = m_.book.StepAt(state.cursor);
    for (; state.cursor_request < step.size(); ++state.cursor_request) {
      if (!WantAhead(tier, step[state.cursor_request], state.cursor)) return;
    }
    ++state.cursor;
    state.cursor_request = 0;
  }
}

/// Small ops need so little that the usual number of them leaves the links of a large tier idle:
/// there the window reaches on until what comes in fills a share of the tier.
bool Lookahead::WindowIsSmall(TierIndex tier, Position end) const {
  if (tier == 0 || end >= m_.book.now() + m_.book.length()) return false;
  return m_.book.EntriesBetween(tier, m_.book.now(), end) * kWindowsPerTier <
         m_.tiers[tier].pool.limit();
}

/// Wants a page ahead. Returns false when nothing more can be fetched now.
bool Lookahead::WantAhead(TierIndex tier, const PageRequest& request, Position position) {
  if (request.tier > tier || request.page >= m_.pages.size()) return true;
  const Page& p = m_.page(request.page);
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
  return m_.goals.TryNow(request.page, goal);
}

/// The page that is used last of those that have to be written to leave and are not used before
/// `horizon`.
std::optional<PageIndex> Lookahead::VictimToClean(TierIndex tier, Position horizon) const {
  const Victims::Evictable cleans = [&](PageIndex candidate) {
    const Page& p = m_.pages[candidate];
    return p.queue.empty() && !m_.facts.FreeToLeave(p, tier) && p.lowest > tier &&
           m_.facts.UseAt(p, tier) >= horizon;
  };
  m_.facts.TellWant(tier, kNoPage);
  return m_.victims.Checked(
      tier, m_.options.policy->VictimToWrite(tier, m_.online ? 0 : horizon, cleans), cleans);
}

void Lookahead::CleanAhead(TierIndex tier) {
  TierState& state = m_.tiers[tier];
  const auto target = static_cast<std::uint32_t>(m_.options.clean_share * state.pool.limit());
  const Position horizon = m_.book.now() + m_.options.prefetch_ops;
  const bool closed = m_.tiers[tier + 1].fenced || m_.tiers[tier + 1].pool.limit() == 0 ||
                      m_.movement.LinkFull(tier, static_cast<TierIndex>(tier + 1), Purpose::kClean);
  if (m_.plan_follower.FollowsPlan() || closed) return;
  while (state.pool.free_count() + state.candidates_free + state.leaving + state.cleaning <
         target) {
    const std::optional<PageIndex> victim = VictimToClean(tier, horizon);
    if (!victim.has_value()) return;
    const Claim claim{
        Purpose::kClean, UINT64_MAX, m_.facts.UseAt(m_.pages[*victim], tier), *victim};
    if (!m_.eviction.StartEviction(tier, *victim, claim)) return;
  }
}

}  // namespace sluice::core
