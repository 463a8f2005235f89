#include "runtime/core/policies/foresight.h"

#include <algorithm>

namespace sluice::core {
namespace {

/// Distances from here on count as equal, so that products with costs fit.
constexpr std::uint64_t kFar = std::uint64_t{1} << 30;

}  // namespace

void NextUseOrder::Insert(const PageFacts& facts, std::uint64_t age) {
  const Rank rank{facts.next_use, facts.free_to_leave, age, facts.page};
  where_[facts.page] = rank;
  order_.insert(rank);
}

void NextUseOrder::Change(const PageFacts& facts) {
  const auto found = where_.find(facts.page);
  if (found == where_.end()) return;
  order_.erase(found->second);
  std::get<0>(found->second) = facts.next_use;
  std::get<1>(found->second) = facts.free_to_leave;
  order_.insert(found->second);
}

void NextUseOrder::Remove(PageIndex page) {
  const auto found = where_.find(page);
  if (found == where_.end()) return;
  order_.erase(found->second);
  where_.erase(found);
}

std::optional<std::uint64_t> NextUseOrder::AgeOf(PageIndex page) const {
  const auto found = where_.find(page);
  if (found == where_.end()) return std::nullopt;
  return std::get<2>(found->second);
}

const NextUseOrder::Rank* NextUseOrder::Furthest(
    const std::function<bool(PageIndex)>& evictable) const {
  for (auto rank = order_.rbegin(); rank != order_.rend(); ++rank) {
    if (evictable(std::get<3>(*rank))) return &*rank;
  }
  return nullptr;
}

void MinPolicy::OnInsert(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)].Insert(facts, --age_);
}

void MinPolicy::OnChange(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)].Change(facts);
}

void MinPolicy::OnRemove(int tier, PageIndex page) {
  tiers_[static_cast<std::size_t>(tier)].Remove(page);
}

std::optional<PageIndex> MinPolicy::Victim(int tier,
                                           const std::function<bool(PageIndex)>& evictable) {
  const auto* rank = tiers_[static_cast<std::size_t>(tier)].Furthest(evictable);
  if (rank == nullptr) return std::nullopt;
  return std::get<3>(*rank);
}

std::size_t NextUseCostPolicy::ClassOf(const PageFacts& facts) {
  return (facts.free_to_leave ? 0u : 1u) + (facts.free_to_return ? 0u : 2u);
}

std::uint64_t NextUseCostPolicy::CostOf(std::size_t cost_class) const {
  return ((cost_class & 1) != 0 ? options_.out_cost : 0) +
         ((cost_class & 2) != 0 ? options_.in_cost : 0);
}

void NextUseCostPolicy::OnInsert(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)][ClassOf(facts)].Insert(facts, --age_);
}

void NextUseCostPolicy::OnChange(int tier, const PageFacts& facts) {
  Tier& t = tiers_[static_cast<std::size_t>(tier)];
  for (NextUseOrder& order : t) {
    const std::optional<std::uint64_t> age = order.AgeOf(facts.page);
    if (!age.has_value()) continue;
    order.Remove(facts.page);
    t[ClassOf(facts)].Insert(facts, *age);
    return;
  }
}

void NextUseCostPolicy::OnRemove(int tier, PageIndex page) {
  for (NextUseOrder& order : tiers_[static_cast<std::size_t>(tier)]) order.Remove(page);
}

/// Compares use / cost without a division. What is used never, or costs nothing, is worth
/// infinitely much; of two such the cheaper goes first.
bool NextUseCostPolicy::Before(std::size_t a, Position use_a, std::size_t b, Position use_b) const {
  // What comes back after it has left for nothing costs what is still to be paid for it.
  const auto cost = [this](std::size_t cost_class, Position use) {
    return use == kNever ? CostOf(cost_class & 1) : CostOf(cost_class);
  };
  const std::uint64_t cost_a = cost(a, use_a), cost_b = cost(b, use_b);
  const bool infinite_a = use_a == kNever || cost_a == 0;
  const bool infinite_b = use_b == kNever || cost_b == 0;
  if (infinite_a != infinite_b) return infinite_a;
  if (infinite_a && cost_a != cost_b) return cost_a < cost_b;
  if (infinite_a) return use_a > use_b;
  const auto distance = [this](Position use) {
    return std::min<std::uint64_t>(use < now_ ? 1 : use - now_ + 1, kFar);
  };
  return distance(use_a) * cost_b > distance(use_b) * cost_a;
}

std::optional<PageIndex> NextUseCostPolicy::Victim(
    int tier, const std::function<bool(PageIndex)>& evictable) {
  const Tier& t = tiers_[static_cast<std::size_t>(tier)];
  std::optional<PageIndex> victim;
  std::size_t best_class = 0;
  Position best_use = 0;
  for (std::size_t i = 0; i < kClasses; ++i) {
    const auto* rank = t[i].Furthest(evictable);
    if (rank == nullptr) continue;
    if (victim.has_value() && !Before(i, std::get<0>(*rank), best_class, best_use)) continue;
    victim = std::get<3>(*rank);
    best_class = i;
    best_use = std::get<0>(*rank);
  }
  return victim;
}

}  // namespace sluice::core
