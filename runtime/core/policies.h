#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "runtime/core/types.h"
#include "sluice/policy.h"

namespace sluice::core {

/// Evicts the page whose last touch is longest ago.
class LruPolicy : public Policy {
 public:
  std::string_view name() const override { return "lru"; }
  void OnInsert(int tier, const PageFacts& facts) override;
  void OnChange(int tier, const PageFacts& facts) override;
  void OnRemove(int tier, PageIndex page) override;
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override;

 private:
  struct Tier {
    std::list<PageIndex> order;  ///< oldest first
    absl::flat_hash_map<PageIndex, std::list<PageIndex>::iterator> where;
  };
  std::vector<Tier> tiers_ = std::vector<Tier>(kTiersMax);
};

/// Evicts the page whose next recorded use is furthest away (Belady's MIN on pages; source: Belady,
/// "A study of replacement algorithms", IBM Systems Journal 5(2), 1966). Ties: pages that leave for
/// free first, then the higher page index. Without a schedule every use is unknown, and ties go by
/// the time of the last touch as in lru.
class MinPolicy : public Policy {
 public:
  std::string_view name() const override { return "min"; }
  void OnInsert(int tier, const PageFacts& facts) override;
  void OnChange(int tier, const PageFacts& facts) override;
  void OnRemove(int tier, PageIndex page) override;
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override;

 private:
  /// (next use, free to leave, age, page): the greatest is evicted first.
  using Rank = std::tuple<Position, bool, std::uint64_t, PageIndex>;
  struct Tier {
    absl::btree_set<Rank> order;
    absl::flat_hash_map<PageIndex, Rank> where;
  };
  std::uint64_t NextAge() { return --age_; }

  std::vector<Tier> tiers_ = std::vector<Tier>(kTiersMax);
  std::uint64_t age_ = UINT64_MAX;
};

}  // namespace sluice::core
