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

std::size_t MinPolicy::ClassOf(const PageFacts& facts) {
  return facts.free_to_leave ? kFree : kDirty;
}

void MinPolicy::OnInsert(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)].Insert(facts, ClassOf(facts));
}

void MinPolicy::OnChange(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)].Change(facts, ClassOf(facts));
}

void MinPolicy::OnRemove(int tier, PageIndex page) {
  tiers_[static_cast<std::size_t>(tier)].Remove(page);
}

/// The classes are one order.
std::optional<PageIndex> MinPolicy::LastOf(const NextUseOrder::Lasts& lasts) {
  const std::optional<NextUseOrder::Rank>& free = lasts[kFree];
  const std::optional<NextUseOrder::Rank>& dirty = lasts[kDirty];
  if (!free.has_value() && !dirty.has_value()) return std::nullopt;
  if (!free.has_value()) return dirty->page;
  return dirty.has_value() && *free < *dirty ? dirty->page : free->page;
}

std::optional<PageIndex> MinPolicy::Victim(int tier,
                                           const std::function<bool(PageIndex)>& evictable) {
  return LastOf(tiers_[static_cast<std::size_t>(tier)].Furthest(evictable));
}

std::optional<PageIndex> MinPolicy::VictimAmong(int tier, std::span<const PageIndex> pages) {
  return LastOf(tiers_[static_cast<std::size_t>(tier)].FurthestAmong(pages));
}

std::optional<PageIndex> MinPolicy::VictimToDrop(int tier,
                                                 const std::function<bool(PageIndex)>& evictable) {
  const auto last = tiers_[static_cast<std::size_t>(tier)].Last(kFree, 0, evictable);
  return last.has_value() ? std::optional(last->page) : std::nullopt;
}

std::optional<PageIndex> MinPolicy::VictimToWrite(int tier,
                                                  Position use_min,
                                                  const std::function<bool(PageIndex)>& evictable) {
  const auto last = tiers_[static_cast<std::size_t>(tier)].Last(kDirty, use_min, evictable);
  return last.has_value() ? std::optional(last->page) : std::nullopt;
}

std::size_t NextUseCostPolicy::ClassOf(const PageFacts& facts) {
  return (facts.free_to_leave ? 0u : kCostsOut) + (facts.free_to_return ? 0u : kCostsIn);
}

std::uint64_t NextUseCostPolicy::CostOf(std::size_t cost_class) const {
  return ((cost_class & kCostsOut) != 0 ? options_.out_cost : 0) +
         ((cost_class & kCostsIn) != 0 ? options_.in_cost : 0);
}

void NextUseCostPolicy::OnInsert(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)].Insert(facts, ClassOf(facts));
}

void NextUseCostPolicy::OnChange(int tier, const PageFacts& facts) {
  tiers_[static_cast<std::size_t>(tier)].Change(facts, ClassOf(facts));
}

void NextUseCostPolicy::OnRemove(int tier, PageIndex page) {
  tiers_[static_cast<std::size_t>(tier)].Remove(page);
}

/// Compares use / cost without a division. What is used never, or costs nothing, is worth
/// infinitely much; of two such the cheaper goes first.
bool NextUseCostPolicy::Before(std::size_t a, Position use_a, std::size_t b, Position use_b) const {
  // What comes back after it has left for nothing costs what is still to be paid for it.
  const auto cost = [this](std::size_t cost_class, Position use) {
    return use == kNever ? CostOf(cost_class & kCostsOut) : CostOf(cost_class);
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

std::optional<PageIndex> NextUseCostPolicy::FirstOf(const NextUseOrder::Lasts& lasts) const {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < lasts.size(); ++i) {
    if (!lasts[i].has_value()) continue;
    if (first.has_value() && !Before(i, lasts[i]->next_use, *first, lasts[*first]->next_use)) {
      continue;
    }
    first = i;
  }
  return first.has_value() ? std::optional(lasts[*first]->page) : std::nullopt;
}

std::optional<PageIndex> NextUseCostPolicy::Victim(
    int tier, const std::function<bool(PageIndex)>& evictable) {
  return FirstOf(tiers_[static_cast<std::size_t>(tier)].Furthest(evictable));
}

std::optional<PageIndex> NextUseCostPolicy::VictimAmong(int tier,
                                                        std::span<const PageIndex> pages) {
  return FirstOf(tiers_[static_cast<std::size_t>(tier)].FurthestAmong(pages));
}

std::optional<PageIndex> NextUseCostPolicy::VictimToDrop(
    int tier, const std::function<bool(PageIndex)>& evictable) {
  const NextUseOrder& order = tiers_[static_cast<std::size_t>(tier)];
  NextUseOrder::Lasts lasts;
  for (const std::size_t i : {std::size_t{0}, kCostsIn}) lasts[i] = order.Last(i, 0, evictable);
  return FirstOf(lasts);
}

std::optional<PageIndex> NextUseCostPolicy::VictimToWrite(
    int tier, Position use_min, const std::function<bool(PageIndex)>& evictable) {
  const NextUseOrder& order = tiers_[static_cast<std::size_t>(tier)];
  NextUseOrder::Lasts lasts;
  for (const std::size_t i : {kCostsOut, kCostsOut | kCostsIn}) {
    lasts[i] = order.Last(i, use_min, evictable);
  }
  return FirstOf(lasts);
}

}  // namespace sluice::core
