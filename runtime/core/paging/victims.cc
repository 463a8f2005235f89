#include "runtime/core/paging/victims.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/strings.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

/// Number of pages that would do, from which on the policy as a rule comes to one of them soon by
/// itself.
constexpr std::size_t kFewPages = 2048;

std::string WrongVictim(std::string_view policy, PageIndex victim, TierIndex tier) {
  return absl::StrCat("policy \"",
                      base::ToAbsl(policy),
                      "\" names page ",
                      victim,
                      " as the victim of tier ",
                      tier,
                      ": name a page of that tier that `evictable` accepts");
}

}  // namespace

std::optional<PageIndex> Victims::VictimFor(TierIndex tier, const Claim& claim) {
  const auto ask = [&] {
    return AskVictim(
        tier, claim.page, [&](PageIndex candidate) { return MayEvict(tier, candidate, claim); });
  };
  const bool own = IsInserted(claim.page, tier) || IsInserted(claim.mover, tier);
  if (claim.purpose != Purpose::kDemand || own || m_.online) return ask();
  Answer& last = m_.tiers[tier].answer;
  if (last.arrival != claim.arrival || last.changes != m_.changes) {
    last = {claim.arrival, m_.changes, ask()};
  }
  return last.victim;
}

std::optional<PageIndex> Victims::VictimOnItsWay(TierIndex tier, const Claim& claim) const {
  if (claim.purpose != Purpose::kDemand || !claim.arrives || !m_.tasks.empty()) return std::nullopt;
  return AskVictim(tier, claim.page, [&](PageIndex index) {
    const Page& p = m_.pages[index];
    if (Moves(index, tier, claim) || WantedUpTo(p, tier, claim.arrival - 1)) return false;
    const bool wanted_here = std::any_of(p.queue.begin(), p.queue.end(), [&](const Need* need) {
      return need->request.tier == tier && need->ticket->arrival <= claim.arrival;
    });
    if (wanted_here) return false;
    return m_.facts.MayDrop(p, tier) || (p.lowest > tier && !m_.tiers[tier + 1].fenced);
  });
}

bool Victims::LeavesForNothing(TierIndex tier, PageIndex index, const Claim& claim) const {
  const Page& p = m_.pages[index];
  const bool demand = claim.purpose == Purpose::kDemand;
  return (demand ? m_.facts.MayDrop(p, tier) : m_.facts.FreeToLeave(p, tier)) &&
         MayEvict(tier, index, claim);
}

std::optional<PageIndex> Victims::VictimForNothing(TierIndex tier, const Claim& claim) const {
  const Evictable leaves = [&](PageIndex page) { return LeavesForNothing(tier, page, claim); };
  const bool all_known =
      !m_.tiers[m_.last_tier()].fenced;  // a fence makes doomed copies count again
  if (!all_known || m_.tasks.empty()) return AskVictim(tier, claim.page, leaves);
  if (m_.tiers[tier].lossless.empty()) return std::nullopt;
  if (tier == 0 && !m_.online) {  // pages told free to leave, with no tier above
    m_.facts.TellWant(tier, claim.page);
    return Checked(tier, m_.options.policy->VictimToDrop(tier, leaves), leaves);
  }
  std::vector<PageIndex> few;
  for (const PageIndex page : m_.tiers[tier].lossless) {
    if (few.size() == kFewPages) return AskVictim(tier, claim.page, leaves);
    if (leaves(page)) few.push_back(page);
  }
  if (few.empty()) return std::nullopt;
  std::sort(few.begin(), few.end());
  m_.facts.TellWant(tier, claim.page);
  const std::optional<PageIndex> victim = m_.options.policy->VictimAmong(tier, few);
  SLUICE_CHECK(victim.has_value() && std::binary_search(few.begin(), few.end(), *victim),
               "PagingPolicy::VictimAmong names one of the pages");
  return victim;
}

bool Victims::MayEvict(TierIndex tier, PageIndex index, const Claim& claim) const {
  const Page& p = m_.pages[index];
  if (Moves(index, tier, claim) || WantedUpTo(p, tier, claim.arrival)) return false;
  const bool foreseen = p.goal.tier != kNoTier && p.goal.position <= claim.position;
  // A page fetched ahead does not displace one that is fetched ahead for the same op or an earlier
  // one.
  if (claim.purpose == Purpose::kAhead && foreseen) return false;
  // Nor does a page that moves ahead of need displace one that is needed no later.
  if (claim.purpose != Purpose::kDemand && m_.facts.UseAt(p, tier) <= claim.position) return false;
  return m_.facts.MayDrop(p, tier) || (p.lowest > tier && !m_.tiers[tier + 1].fenced);
}

bool Victims::Moves(PageIndex index, TierIndex tier, const Claim& claim) const {
  return index == claim.page ||
         (index == claim.mover && m_.pages[index].copies[tier].state == CopyState::kValid);
}

bool Victims::WantedUpTo(const Page& p, TierIndex tier, std::uint64_t arrival) const {
  return std::any_of(p.queue.begin(), p.queue.end(), [&](const Need* need) {
    const bool waits = need->ticket->kind == TicketKind::kAcquire && !need->ticket->granted &&
                       need->ticket->arrival <= arrival;
    if (!waits || need->ready) return waits && need->request.tier == tier;
    const bool brings = need->request.mode != PageMode::kOverwrite;
    return need->request.tier == tier ||
           (brings && m_.copies.BestSource(p, need->request.tier) == tier);
  });
}

std::optional<PageIndex> Victims::AskVictim(TierIndex tier,
                                            PageIndex wanted,
                                            const Evictable& evictable) const {
  m_.facts.TellWant(tier, wanted);
  return Checked(tier, m_.options.policy->Victim(tier, evictable), evictable);
}

std::optional<PageIndex> Victims::Checked(TierIndex tier,
                                          std::optional<PageIndex> victim,
                                          const Evictable& evictable) const {
  const bool may_go = !victim.has_value() || (IsInserted(*victim, tier) && evictable(*victim));
  SLUICE_CHECK(may_go, WrongVictim(m_.options.policy->name(), *victim, tier).c_str());
  return victim;
}

bool Victims::IsInserted(PageIndex index, TierIndex tier) const {
  return index < m_.pages.size() && m_.pages[index].copies[tier].candidate;
}

}  // namespace sluice::core
