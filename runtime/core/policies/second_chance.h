#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "runtime/core/policies/page_order.h"
#include "runtime/core/policies/replacement.h"

/// Policies with one queue and a bit per page: the hand that looks for a victim clears the bits it
/// meets.

namespace sluice::core {

/// CLOCK (Corbató, "A paging experiment with the Multics system", 1968). The circle is a queue that
/// begins at the hand: a page that the hand passes goes to its end, and so does one that comes.
class Clock : public Replacement {
 public:
  void Come(PageIndex page) override { order_.Add(page, ++clock_); }
  void Use(PageIndex page, bool) override { used_.insert(page); }
  void Show(PageIndex page, bool shown) override { order_.Show(page, shown); }
  void Leave(PageIndex page, bool victim) override;
  std::optional<PageIndex> Victim(std::optional<PageIndex>, const Evictable& evictable) override;

 private:
  PageOrder<std::uint64_t> order_;
  absl::flat_hash_set<PageIndex> used_;
  std::uint64_t clock_ = 0;
  /// The last answer, and the pages that the hand passes to get there.
  std::optional<PageIndex> answer_;
  std::vector<PageIndex> passed_;
};

/// SIEVE (Zhang et al., "SIEVE is simpler than LRU", NSDI 2024). The hand moves from the oldest to
/// the newest page and starts again; pages keep their places.
class Sieve : public Replacement {
 public:
  void Come(PageIndex page) override;
  void Use(PageIndex page, bool first) override;
  void Show(PageIndex page, bool shown) override { order_.Show(page, shown); }
  void Leave(PageIndex page, bool victim) override;
  std::optional<PageIndex> Victim(std::optional<PageIndex>, const Evictable& evictable) override;

 private:
  PageOrder<std::uint64_t> order_;
  absl::btree_set<std::uint64_t> places_;  ///< places of all pages, hidden ones too
  absl::flat_hash_set<PageIndex> visited_;
  std::uint64_t clock_ = 0;
  std::uint64_t hand_ = 0;  ///< place to look at next; 0: the oldest
  std::optional<PageIndex> answer_;
  std::vector<PageIndex> passed_;
};

}  // namespace sluice::core
