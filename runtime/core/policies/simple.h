#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/policies/page_order.h"
#include "runtime/core/policies/replacement.h"

/// Policies that need no more than one order of their pages.

namespace sluice::core {

/// First in, first out: evicts the page that came longest ago.
class Fifo : public Replacement {
 public:
  void Come(PageIndex page) override { order_.Add(page, ++clock_); }
  void Use(PageIndex, bool) override {}
  void Show(PageIndex page, bool shown) override { order_.Show(page, shown); }
  void Leave(PageIndex page, bool) override { order_.Remove(page); }
  std::optional<PageIndex> Victim(std::optional<PageIndex>, const Evictable& evictable) override {
    return order_.First(evictable);
  }

 protected:
  PageOrder<std::uint64_t> order_;
  std::uint64_t clock_ = 0;
};

/// Evicts the page whose last use, or else whose coming, is longest ago.
class Lru : public Fifo {
 public:
  void Use(PageIndex page, bool) override { order_.Move(page, ++clock_); }
};

/// Evicts the page used least often since it came; of several, the least recently used one. This is
/// "in-cache LFU": pages that have left keep no counts.
class Lfu : public Replacement {
 public:
  void Come(PageIndex page) override { order_.Add(page, {1, ++clock_}); }
  void Use(PageIndex page, bool first) override {
    order_.Move(page, {order_.KeyOf(page).first + (first ? 0 : 1), ++clock_});
  }
  void Show(PageIndex page, bool shown) override { order_.Show(page, shown); }
  void Leave(PageIndex page, bool) override { order_.Remove(page); }
  std::optional<PageIndex> Victim(std::optional<PageIndex>, const Evictable& evictable) override {
    return order_.First(evictable);
  }

 private:
  PageOrder<std::pair<std::uint64_t, std::uint64_t>> order_;  ///< (uses, last use)
  std::uint64_t clock_ = 0;
};

/// Greedy-Dual-Size-Frequency (Cherkasova, "Improving WWW proxies performance with
/// Greedy-Dual-Size-Frequency caching policy", HP Laboratories HPL-98-69R1, 1998): evicts the page
/// with the least value L + uses * cost / size. L is the value that the last victim had at the time
/// of the page's last use. All sizes are 1 here. Ties: the least recently used.
class Gdsf : public Replacement {
 public:
  void Come(PageIndex page) override;
  void Use(PageIndex page, bool first) override;
  void Show(PageIndex page, bool shown) override { order_.Show(page, shown); }
  void SetDirty(PageIndex page, bool dirty) override;
  void Leave(PageIndex page, bool victim) override;
  std::optional<PageIndex> Victim(std::optional<PageIndex>, const Evictable& evictable) override {
    return order_.First(evictable);
  }

 private:
  struct Worth {
    std::uint64_t base = 0;  ///< L at the last use
    std::uint64_t uses = 1;
    std::uint64_t cost = 0;
    std::uint64_t last_use = 0;
  };
  using Rank = std::pair<std::uint64_t, std::uint64_t>;  ///< (priority, last use)
  static Rank RankOf(const Worth& worth) {
    return {worth.base + worth.uses * worth.cost, worth.last_use};
  }

  PageOrder<Rank> order_;
  absl::flat_hash_map<PageIndex, Worth> worth_;
  std::uint64_t inflation_ = 0;  ///< L
  std::uint64_t clock_ = 0;
};

/// Evicts any page with equal chance, by pseudo-random numbers that `seed` fixes.
class RandomReplacement : public Replacement {
 public:
  explicit RandomReplacement(std::uint64_t seed) : state_(seed), draw_(Next()) {}
  void Come(PageIndex) override {}
  void Use(PageIndex, bool) override {}
  void Show(PageIndex page, bool shown) override;
  void Leave(PageIndex page, bool victim) override;
  std::optional<PageIndex> Victim(std::optional<PageIndex>, const Evictable& evictable) override;

 private:
  std::uint64_t Next();

  std::uint64_t state_;
  std::uint64_t draw_;  ///< changes with every victim, not with every question
  std::vector<PageIndex> shown_;
  absl::flat_hash_map<PageIndex, std::size_t> where_;
};

}  // namespace sluice::core
