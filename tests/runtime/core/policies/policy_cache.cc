#include "tests/runtime/core/policies/policy_cache.h"

#include "base/check.h"

namespace sluice::core {

PolicyCache::PolicyCache(const std::string& policy, std::size_t frames, const Trace& trace)
    : PolicyCache(CreatePolicy(policy).value(), frames, trace) {}

PolicyCache::PolicyCache(std::shared_ptr<PagingPolicy> policy,
                         std::size_t frames,
                         const Trace& trace)
    : policy_(std::make_unique<CheckedPolicy>(std::move(policy), nullptr)),
      online_(policy_->online()),
      frames_(frames),
      trace_(trace),
      next_use_(NextUses(trace)) {
  policy_->OnFrames(0, frames);
}

PageFacts PolicyCache::FactsOf(PageIndex page) const {
  const Resident& resident = resident_.at(page);
  PageFacts facts{.page = page, .free_to_leave = !resident.dirty};
  if (online_) return facts;
  facts.next_use = next_use_[resident.last];
  facts.free_to_return =
      facts.next_use != kNever && trace_[facts.next_use].mode == Reference::Mode::kOverwrite;
  return facts;
}

PageIndex PolicyCache::Evict(PageIndex incoming) {
  policy_->OnWant(0, incoming);
  const std::optional<PageIndex> victim = policy_->Victim(0, [](PageIndex) { return true; });
  SLUICE_CHECK(victim.has_value() && resident_.contains(*victim), "a full tier has a victim");
  policy_->OnRemove(0, *victim);
  policy_->OnLeave(0, *victim, Departure::kVictim);
  if (resident_.at(*victim).dirty) ++pages_out_;
  resident_.erase(*victim);
  below_[*victim] = true;
  return *victim;
}

void PolicyCache::AskForNothing() {
  std::mt19937_64& random = *idle_questions_;
  if (random() % 4 != 0) return;
  const PageIndex mask = static_cast<PageIndex>(random());
  policy_->OnWant(0, std::nullopt);
  policy_->Victim(0, [&](PageIndex page) { return ((page ^ mask) & 3) == 0; });
}

PolicyCache::Step PolicyCache::Next() {
  const Reference& reference = trace_[now_];
  const PageIndex page = reference.page;
  Step step{.hit = resident_.contains(page), .evicted = std::nullopt};
  policy_->OnStep(now_ + 1);
  if (idle_questions_.has_value()) AskForNothing();
  if (!step.hit) {
    if (resident_.size() == frames_) step.evicted = Evict(page);
    if (below_[page] && reference.mode != Reference::Mode::kOverwrite) ++pages_in_;
    resident_[page] = {.last = now_};
    policy_->OnInsert(0, FactsOf(page));
  }
  policy_->OnAccess(0, page);
  policy_->OnRemove(0, page);  // leased
  Resident& resident = resident_.at(page);
  resident.dirty = resident.dirty || reference.mode != Reference::Mode::kRead;
  resident.last = now_++;
  policy_->OnInsert(0, FactsOf(page));
  hits_ += step.hit ? 1 : 0;
  return step;
}

void PolicyCache::Flush() {
  for (const auto& [page, resident] : resident_) pages_out_ += resident.dirty ? 1 : 0;
}

}  // namespace sluice::core
