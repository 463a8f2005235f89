#include "runtime/core/paging/facts.h"

#include <algorithm>
#include <utility>

#include "runtime/core/machine/machine.h"

namespace sluice::core {

bool Facts::PinnedAt(const Page& p, TierIndex tier) const {
  return p.pins > 0 && std::any_of(p.queue.begin(), p.queue.end(), [&](const Need* need) {
           return need->ticket->granted && need->request.tier == tier;
         });
}

bool Facts::IsIdle(const Page& p, TierIndex tier) const {
  const PageCopy& copy = p.copies[tier];
  const bool there = copy.state == CopyState::kValid || copy.state == CopyState::kPlaced;
  if (Dies(p) || p.write_pinned) return false;
  return there && copy.readers == 0 && !copy.mapping && !copy.transit && !PinnedAt(p, tier);
}

bool Facts::IsCandidate(const Page& p, TierIndex tier) const {
  return ((p.head_wants >> tier) & 1) == 0 && IsIdle(p, tier);
}

bool Facts::FreeToLeave(const Page& p, TierIndex tier) const {
  if (p.copies[tier].state == CopyState::kPlaced || !p.content || p.file_home) return true;
  const bool fenced = m_.tiers[m_.last_tier()].fenced;
  return std::any_of(p.copies.begin() + tier + 1, p.copies.end(), [&](const PageCopy& copy) {
    return copy.state == CopyState::kValid && (!copy.doomed || fenced);
  });
}

bool Facts::MayDrop(const Page& p, TierIndex tier) const {
  if (FreeToLeave(p, tier)) return true;
  return std::any_of(p.copies.begin(), p.copies.begin() + tier, [](const PageCopy& copy) {
    return copy.state == CopyState::kValid;
  });
}

Position Facts::UseAt(const Page& p, TierIndex tier) const {
  if (p.next_use == kNever && p.hint_tier == tier) return p.hinted;
  if (p.next_use == kNever || p.next_tier == tier) return p.next_use;
  if (p.next_tier > tier) return kNever;  // needed below: the sooner it leaves the better
  for (TierIndex t = 0; t < tier; ++t) {
    if (p.copies[t].state == CopyState::kValid && !p.copies[t].leaving) return kNever;
  }
  return p.next_use;
}

Position Facts::UseKnown(const Page& p, TierIndex tier) const {
  return m_.online ? kNever : UseAt(p, tier);
}

void Facts::Update(PageIndex index) {
  for (TierIndex t = 0; t < m_.last_tier(); ++t) TellPolicy(index, t);
}

PageFacts Facts::FactsOf(PageIndex index, TierIndex tier) const {
  const Page& p = m_.pages[index];
  const bool overwritten =
      UseKnown(p, tier) != kNever && p.next_use != kNever && p.next_mode == PageMode::kOverwrite;
  return {.page = index,
          .kind = p.kind,
          .next_use = UseKnown(p, tier),
          .free_to_leave = FreeToLeave(p, tier),
          .free_to_return = !p.content || overwritten};
}

void Facts::TellPolicy(PageIndex index, TierIndex tier) {
  const Page& p = m_.pages[index];
  PageCopy& copy = m_.page(index).copies[tier];
  const bool candidate = IsCandidate(p, tier);
  if (!candidate && !copy.candidate) return;
  const PageFacts facts = FactsOf(index, tier);
  TierState& state = m_.tiers[tier];
  if (copy.candidate && copy.told_free) --state.candidates_free;
  if (candidate && facts.free_to_leave) ++state.candidates_free;
  const bool lossless = candidate && (facts.free_to_leave || MayDrop(p, tier));
  NoteLossless(index, tier, lossless);
  const bool changed = facts.next_use != copy.told_use || facts.free_to_leave != copy.told_free ||
                       facts.free_to_return != copy.told_return;
  if (candidate && copy.candidate && !changed) return;
  ++m_.changes;
  if (candidate && !copy.candidate) {
    copy.known = true;
    m_.options.policy->OnInsert(tier, facts);
    if (state.starved) m_.pump_again = true;
  } else if (!candidate) {
    m_.options.policy->OnRemove(tier, index);
  } else {
    m_.options.policy->OnChange(tier, facts);
  }
  copy.candidate = candidate;
  copy.told_free = facts.free_to_leave;
  copy.told_return = facts.free_to_return;
  copy.told_use = facts.next_use;
}

void Facts::NoteLossless(PageIndex index, TierIndex tier, bool lossless) {
  PageCopy& copy = m_.page(index).copies[tier];
  if (copy.lossless == lossless) return;
  ++m_.changes;
  copy.lossless = lossless;
  std::vector<PageIndex>& pages = m_.tiers[tier].lossless;
  if (lossless) {
    copy.lossless_place = static_cast<std::uint32_t>(pages.size());
    pages.push_back(index);
    return;
  }
  pages[copy.lossless_place] = pages.back();
  m_.page(pages.back()).copies[tier].lossless_place = copy.lossless_place;
  pages.pop_back();
}

void Facts::TellAccess(PageIndex index, TierIndex tier) {
  PageCopy& copy = m_.page(index).copies[tier];
  if (tier == m_.last_tier() || copy.transit) return;
  copy.known = true;
  m_.options.policy->OnAccess(tier, index);
}

void Facts::TellDeparture(PageIndex index, TierIndex tier, Departure departure) {
  PageCopy& copy = m_.page(index).copies[tier];
  if (!std::exchange(copy.known, false)) return;
  m_.options.policy->OnLeave(tier, index, departure);
}

void Facts::TellFreed(PageIndex index) {
  for (TierIndex t = 0; t < m_.last_tier(); ++t) {
    m_.options.policy->OnLeave(t, index, Departure::kFreed);
  }
}

void Facts::TellWant(TierIndex tier, PageIndex wanted) const {
  m_.options.policy->OnWant(tier, wanted == kNoPage ? std::nullopt : std::optional(wanted));
}

void Facts::TellFrames(TierIndex tier) {
  m_.options.policy->OnFrames(tier, m_.capacity.OpFramesMax(tier));
}

void Facts::Withdraw(PageIndex index, TierIndex tier) {
  m_.options.policy->OnRemove(tier, index);
  if (m_.page(index).copies[tier].told_free) --m_.tiers[tier].candidates_free;
  NoteLossless(index, tier, false);
}

}  // namespace sluice::core
