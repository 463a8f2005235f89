#include "runtime/core/policies/replacement.h"

namespace sluice::core {

OnlinePolicy::OnlinePolicy(std::string_view name, const ReplacementFactory& factory)
    : name_(name), tiers_(kTiersMax) {
  for (Replaced& tier : tiers_) tier.replacement = factory();
}

void OnlinePolicy::OnFrames(int index, std::uint64_t frames) {
  tier(index).replacement->Resize(frames);
}

bool& OnlinePolicy::Resident(Replaced& tier, PageIndex page) {
  const auto [entry, came] = tier.used.try_emplace(page, false);
  if (came) tier.replacement->Come(page);
  return entry->second;
}

void OnlinePolicy::OnInsert(int index, const PageFacts& facts) {
  Replaced& t = tier(index);
  Resident(t, facts.page);
  t.replacement->SetDirty(facts.page, !facts.free_to_leave);
  t.replacement->Show(facts.page, true);
}

void OnlinePolicy::OnChange(int index, const PageFacts& facts) {
  Replaced& t = tier(index);
  if (t.used.contains(facts.page)) t.replacement->SetDirty(facts.page, !facts.free_to_leave);
}

void OnlinePolicy::OnRemove(int index, PageIndex page) {
  tier(index).replacement->Show(page, false);
}

void OnlinePolicy::OnAccess(int index, PageIndex page) {
  Replaced& t = tier(index);
  bool& used = Resident(t, page);
  t.replacement->Use(page, !used);
  used = true;
}

void OnlinePolicy::OnLeave(int index, PageIndex page, Departure why) {
  Replaced& t = tier(index);
  if (t.used.erase(page) > 0) t.replacement->Leave(page, why == Departure::kVictim);
  if (why == Departure::kFreed) t.replacement->Forget(page);
}

void OnlinePolicy::OnWant(int index, std::optional<PageIndex> page) { tier(index).incoming = page; }

std::optional<PageIndex> OnlinePolicy::Victim(int index, const Evictable& evictable) {
  Replaced& t = tier(index);
  return t.replacement->Victim(t.incoming, evictable);
}

}  // namespace sluice::core
