#include "runtime/core/machine/invariants.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {

void Invariants::Check() const {
  CheckQueues();
  CheckAnswers();
  m_.capacity.CheckCommitments();
  std::vector<FrameIndex> used(m_.tiers.size(), 0);
  std::vector<std::array<std::uint32_t, 2>> transit(m_.tiers.size());
  std::vector<std::uint32_t> lossless(m_.tiers.size(), 0);
  for (PageIndex i = 0; i < m_.pages.size(); ++i) {
    const Page& p = m_.pages[i];
    bool reachable = !p.content || p.file_home || p.reproducible;
    const bool arrives = std::any_of(
        p.copies.begin(), p.copies.end(), [](const PageCopy& copy) { return copy.under_way; });
    for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
      const PageCopy& copy = p.copies[t];
      if (copy.state == CopyState::kNone) continue;
      ++used[t];
      SLUICE_CHECK(m_.tiers[t].pool.owner(copy.frame) == i, "I1: a frame has one owner");
      if (copy.transit) ++transit[t][static_cast<std::size_t>(copy.transit_direction)];
      if (copy.state == CopyState::kValid) reachable = true;
      SLUICE_CHECK(!p.write_pinned || arrives || m_.facts.PinnedAt(p, t),
                   "I4: a written page is in one tier only, once it has arrived");
      SLUICE_CHECK(!copy.candidate || !m_.facts.PinnedAt(p, t),
                   "I3: a pinned frame is no candidate");
      const bool drops =
          copy.candidate && m_.facts.MayDrop(p, t) && !m_.tiers[m_.last_tier()].fenced;
      SLUICE_CHECK(!drops || copy.lossless, "I8: who may be dropped is known, so room is found");
      if (!copy.lossless) continue;
      ++lossless[t];
      SLUICE_CHECK(m_.tiers[t].lossless.at(copy.lossless_place) == i, "I8: at their places");
    }
    SLUICE_CHECK(reachable, "I2: content has a valid copy or a way to get one");
    if (p.stale_frame != kNoFrame) ++used[m_.tiers.size() - 1];
    if (p.held_tier != kNoTier) ++used[p.held_tier];
  }
  for (const auto& [number, reservation] : m_.budgets.reservations()) {
    used[reservation.tier] += static_cast<FrameIndex>(reservation.frames.size());
  }
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    SLUICE_CHECK(used[t] == m_.tiers[t].pool.used(), "I1: every frame in use is accounted for");
    SLUICE_CHECK(used[t] <= m_.tiers[t].pool.frames_max(), "I1: a tier stays within its budget");
    SLUICE_CHECK(lossless[t] == m_.tiers[t].lossless.size(), "I8: no others are");
    SLUICE_CHECK(transit[t] == m_.tiers[t].transit_used, "I9: transit frames are counted");
    SLUICE_CHECK(
        transit[t][0] <= m_.options.transit_frames && transit[t][1] <= m_.options.transit_frames,
        "I9: at most the transit frames are in transit");
  }
}

/// Checks that nobody is forgotten. Pages that a ticket lacks are looked at or under way. Pages
/// with a goal are queued or under way. Every page-out is hurried, or may yet be.
void Invariants::CheckQueues() const {
  for (const Ticket* ticket : m_.pending) {
    for (NeedQueue::Ordinal i = 0; i < ticket->needs.size(); ++i) {
      const Need& need = ticket->needs[i];
      const bool rests = need.locked && !need.ready && m_.pages[need.request.page].tasks == 0;
      SLUICE_CHECK(!rests || ticket->queue.Contains(i), "I8: what a ticket lacks is looked at");
    }
  }
  std::uint64_t goals = 0;
  for (const Page& p : m_.pages) {
    if (!p.goal_queued) continue;
    ++goals;
    SLUICE_CHECK(p.exists && p.goal.tier != kNoTier, "a page that is queued has a goal");
  }
  SLUICE_CHECK(goals == m_.goals.size(), "every goal that is queued is its page's");
  std::size_t out = 0;
  std::uint32_t refills = 0;
  std::vector<std::uint32_t> unhurried(m_.tiers.size(), 0);
  for (const auto& [number, task] : m_.tasks) {
    if (IsRefill(task)) ++refills;
    if (task.kind != TaskKind::kCopy || task.target < task.source) continue;
    ++out;
    if (!task.urgent) ++unhurried[task.source];
    SLUICE_CHECK(m_.hastening.Lists(number, task.urgent), "a page-out is in a list");
  }
  SLUICE_CHECK(out == m_.hastening.page_outs(), "only page-outs are in those lists");
  SLUICE_CHECK(refills == m_.refills_in_flight, "pages that are restored are counted");
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    SLUICE_CHECK(unhurried[t] == m_.tiers[t].unhurried, "page-outs to hasten are counted by tier");
  }
}

/// Checks that a policy would have given the same answer where it was not asked again.
void Invariants::CheckAnswers() const {
  for (TierIndex t = 0; t < m_.last_tier(); ++t) {
    const Answer& last = m_.tiers[t].answer;
    if (last.changes != m_.changes) continue;
    const Claim claim{.arrival = last.arrival};
    const auto evictable = [&](PageIndex index) { return m_.victims.MayEvict(t, index, claim); };
    SLUICE_CHECK(m_.victims.AskVictim(t, kNoPage, evictable) == last.victim,
                 "I7: an answer stays right");
  }
}

}  // namespace sluice::core
