#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "runtime/core/types.h"
#include "sluice/policy.h"

/// The policies that know when each page is used next.

namespace sluice::core {

/// Pages by their next use, the furthest last. Of several with the same (as without a schedule,
/// when none is known) those that leave for free, then the one that was inserted longest ago come
/// last. All operations are O(log n).
class NextUseOrder {
 public:
  /// (next use, free to leave, age, page).
  using Rank = std::tuple<Position, bool, std::uint64_t, PageIndex>;

  void Insert(const PageFacts& facts, std::uint64_t age);
  /// No effect on a page that is not there.
  void Change(const PageFacts& facts);
  void Remove(PageIndex page);
  /// The age that the page was inserted with; none when it is not there.
  std::optional<std::uint64_t> AgeOf(PageIndex page) const;
  /// The last that `evictable` accepts.
  const Rank* Furthest(const std::function<bool(PageIndex)>& evictable) const;

 private:
  absl::btree_set<Rank> order_;
  absl::flat_hash_map<PageIndex, Rank> where_;
};

/// Evicts the page whose next recorded use is furthest away (Belady's MIN on pages; source: Belady,
/// "A study of replacement algorithms", IBM Systems Journal 5(2), 1966).
class MinPolicy : public Policy {
 public:
  std::string_view name() const override { return "min"; }
  void OnInsert(int tier, const PageFacts& facts) override;
  void OnChange(int tier, const PageFacts& facts) override;
  void OnRemove(int tier, PageIndex page) override;
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override;

 private:
  std::vector<NextUseOrder> tiers_ = std::vector<NextUseOrder>(kTiersMax);
  std::uint64_t age_ = UINT64_MAX;
};

/// What it costs to move a page, in any unit.
struct NextUseCostOptions {
  std::uint32_t in_cost = 1;   ///< bringing it back
  std::uint32_t out_cost = 1;  ///< writing it, when it is not free to leave
};

/// Evicts the page with the greatest
///     (next use - now) / (in_cost, unless it is free to return + out_cost, unless free to leave):
/// the time that its frame is won for, per transfer that this costs. So of pages with similar next
/// uses the clean go before the dirty; and a dirty one goes before a clean one when its next use is
/// more than twice as far. A page that costs nothing goes first, then one without a next use, in
/// either case the cheapest, then the furthest. (Pages are of one size, which cancels out.)
/// O(log n): pages of equal cost are ordered by their next use, whatever now is.
class NextUseCostPolicy : public Policy {
 public:
  explicit NextUseCostPolicy(const NextUseCostOptions& options) : options_(options) {}
  std::string_view name() const override { return "next-use-cost"; }
  void OnStep(Position now) override { now_ = now; }
  void OnInsert(int tier, const PageFacts& facts) override;
  void OnChange(int tier, const PageFacts& facts) override;
  void OnRemove(int tier, PageIndex page) override;
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override;

 private:
  static constexpr std::size_t kClasses = 4;
  using Tier = std::array<NextUseOrder, kClasses>;

  /// Bit 0: costs out; bit 1: costs in.
  static std::size_t ClassOf(const PageFacts& facts);
  std::uint64_t CostOf(std::size_t cost_class) const;
  /// Whether a page of class `a` with next use `use_a` goes before one of class `b`.
  bool Before(std::size_t a, Position use_a, std::size_t b, Position use_b) const;

  NextUseCostOptions options_;
  std::vector<Tier> tiers_ = std::vector<Tier>(kTiersMax);
  std::uint64_t age_ = UINT64_MAX;
  Position now_ = 0;
};

/// As next-use-cost, for what no plan decides.
class PlannedPolicy final : public NextUseCostPolicy {
 public:
  PlannedPolicy() : NextUseCostPolicy(NextUseCostOptions{}) {}
  std::string_view name() const override { return "planned"; }
  bool planned() const override { return true; }
};

}  // namespace sluice::core
