#include "runtime/core/policies/foresight.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::core {
namespace {

/// Distances from here on count as equal, so that products with costs fit.
constexpr std::uint64_t kFar = std::uint64_t{1} << 30;

}  // namespace

std::uint64_t NextUseOrder::FreeBit(const PageFacts& facts) {
  return std::uint64_t{facts.free_to_leave} << 63;
}

void NextUseOrder::Insert(const PageFacts& facts, std::size_t page_class) {
  if (facts.page >= places_.size()) places_.resize(std::size_t{facts.page} + 1);
  ClassRank& place = places_[facts.page];
  SLUICE_CHECK(place.page_class == kClasses, "a page has one place in an order");
  place.rank = {facts.next_use, FreeBit(facts) | --age_, facts.page};
  place.page_class = static_cast<std::uint8_t>(page_class);
  orders_[page_class].insert(place.rank);
}

void NextUseOrder::Change(const PageFacts& facts, std::size_t page_class) {
  if (facts.page >= places_.size()) return;
  ClassRank& place = places_[facts.page];
  if (place.page_class == kClasses) return;
  orders_[place.page_class].erase(place.rank);
  constexpr std::uint64_t kAgeBits = ~(std::uint64_t{1} << 63);
  place.rank.next_use = facts.next_use;
  place.rank.free_and_age = FreeBit(facts) | (place.rank.free_and_age & kAgeBits);
  place.page_class = static_cast<std::uint8_t>(page_class);
  orders_[page_class].insert(place.rank);
}

void NextUseOrder::Remove(PageIndex page) {
  if (page >= places_.size()) return;
  ClassRank& place = places_[page];
  if (place.page_class == kClasses) return;
  orders_[place.page_class].erase(place.rank);
  place.page_class = kClasses;
}

std::optional<NextUseOrder::Rank> NextUseOrder::Last(
    std::size_t page_class,
    Position use_min,
    const std::function<bool(PageIndex)>& evictable) const {
  const absl::btree_set<Rank>& order = orders_[page_class];
  for (auto rank = order.rbegin(); rank != order.rend() && rank->next_use >= use_min; ++rank) {
    if (evictable(rank->page)) return *rank;
  }
  return std::nullopt;
}

NextUseOrder::Lasts NextUseOrder::Furthest(const std::function<bool(PageIndex)>& evictable) const {
  Lasts lasts;
  for (std::size_t i = 0; i < kClasses; ++i) lasts[i] = Last(i, 0, evictable);
  return lasts;
}

NextUseOrder::Lasts NextUseOrder::FurthestAmong(std::span<const PageIndex> pages) const {
  Lasts lasts;
  for (const PageIndex page : pages) {
    const ClassRank& place = places_.at(page);
    SLUICE_CHECK(place.page_class != kClasses, "a victim is chosen among inserted pages");
    std::optional<Rank>& last = lasts[place.page_class];
    if (!last.has_value() || *last < place.rank) last = place.rank;
  }
  return lasts;
}

std::size_t NextUsePolicy::ClassOf(const PageFacts& facts) {
  return (facts.free_to_leave ? 0u : kCostsOut) + (facts.free_to_return ? 0u : kCostsIn);
}

void NextUsePolicy::OnInsert(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)].Insert(facts, ClassOf(facts));
}

void NextUsePolicy::OnChange(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)].Change(facts, ClassOf(facts));
}

void NextUsePolicy::OnRemove(int tier, PageIndex page) {
  tiers_[static_cast<std::size_t>(tier)].Remove(page);
}

std::optional<PageIndex> NextUsePolicy::FirstOf(const NextUseOrder::Lasts& lasts) const {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < lasts.size(); ++i) {
    if (!lasts[i].has_value()) continue;
    if (!first.has_value() || Before(i, *lasts[i], *first, *lasts[*first])) first = i;
  }
  return first.has_value() ? std::optional(lasts[*first]->page) : std::nullopt;
}

std::optional<PageIndex> NextUsePolicy::Victim(int tier,
                                               const std::function<bool(PageIndex)>& evictable) {
  return FirstOf(tiers_[static_cast<std::size_t>(tier)].Furthest(evictable));
}

std::optional<PageIndex> NextUsePolicy::VictimAmong(int tier, std::span<const PageIndex> pages) {
  return FirstOf(tiers_[static_cast<std::size_t>(tier)].FurthestAmong(pages));
}

std::optional<PageIndex> NextUsePolicy::VictimToDrop(
    int tier, const std::function<bool(PageIndex)>& evictable) {
  const NextUseOrder& order = tiers_[static_cast<std::size_t>(tier)];
  NextUseOrder::Lasts lasts;
  for (const std::size_t i : {std::size_t{0}, kCostsIn}) lasts[i] = order.Last(i, 0, evictable);
  return FirstOf(lasts);
}

std::optional<PageIndex> NextUsePolicy::VictimToWrite(
    int tier, Position use_min, const std::function<bool(PageIndex)>& evictable) {
  const NextUseOrder& order = tiers_[static_cast<std::size_t>(tier)];
  NextUseOrder::Lasts lasts;
  for (const std::size_t i : {kCostsOut, kCostsOut | kCostsIn}) {
    lasts[i] = order.Last(i, use_min, evictable);
  }
  return FirstOf(lasts);
}

/// Compares use / cost without a division. A page that is used never, or costs nothing, is worth
/// infinitely much. The cheaper of two such pages goes first.
bool NextUseCostPolicy::Before(std::size_t class_a,
                               const NextUseOrder::Rank& a,
                               std::size_t class_b,
                               const NextUseOrder::Rank& b) const {
  // A page that comes back after it has left for nothing costs only its return.
  const auto cost = [](std::size_t cost_class, Position use) {
    const bool comes_back = use != kNever && (cost_class & kCostsIn) != 0;
    return std::uint64_t{(cost_class & kCostsOut) != 0} + std::uint64_t{comes_back};
  };
  const std::uint64_t cost_a = cost(class_a, a.next_use), cost_b = cost(class_b, b.next_use);
  const bool infinite_a = a.next_use == kNever || cost_a == 0;
  const bool infinite_b = b.next_use == kNever || cost_b == 0;
  if (infinite_a != infinite_b) return infinite_a;
  if (infinite_a && cost_a != cost_b) return cost_a < cost_b;
  if (infinite_a) return a.next_use > b.next_use;
  const auto distance = [this](Position use) {
    return std::min<std::uint64_t>(use < now_ ? 1 : use - now_ + 1, kFar);
  };
  return distance(a.next_use) * cost_b > distance(b.next_use) * cost_a;
}

}  // namespace sluice::core
