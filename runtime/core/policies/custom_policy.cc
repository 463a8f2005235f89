#include "runtime/core/policies/custom_policy.h"

namespace sluice::core {

AdaptedPolicy::Resident& AdaptedPolicy::Tell(int tier, const PageFacts& facts) {
  const auto [entry, arrived] = At(tier).pages.try_emplace(facts.page, Resident{facts});
  Resident& resident = entry->second;
  if (arrived) {
    policy_->OnArrive(tier, facts);
  } else if (resident.facts != facts) {
    resident.facts = facts;
    policy_->OnChange(tier, facts);
  }
  return resident;
}

void AdaptedPolicy::OnInsert(int tier, const PageFacts& facts) {
  Tell(tier, facts).inserted = true;
}

void AdaptedPolicy::OnChange(int tier, const PageFacts& facts) { Tell(tier, facts); }

void AdaptedPolicy::OnRemove(int tier, PageIndex page) {
  const auto found = At(tier).pages.find(page);
  if (found != At(tier).pages.end()) found->second.inserted = false;
}

void AdaptedPolicy::OnAccess(int tier, PageIndex page) {
  if (!At(tier).pages.contains(page)) Tell(tier, {.page = page});
  policy_->OnUse(tier, page);
}

void AdaptedPolicy::OnLeave(int tier, PageIndex page, Departure why) {
  const bool resident = At(tier).pages.erase(page) > 0;
  if (resident || why == Departure::kFreed) policy_->OnLeave(tier, page, why);
}

std::optional<PageIndex> AdaptedPolicy::Victim(int tier,
                                               const std::function<bool(PageIndex)>& evictable) {
  const TierPages& t = At(tier);
  return policy_->Victim(
      {.tier = tier, .frames = t.frames, .now = now_, .incoming = t.incoming}, [&](PageIndex page) {
        const auto found = t.pages.find(page);
        return found != t.pages.end() && found->second.inserted && evictable(page);
      });
}

}  // namespace sluice::core
