#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/btree_set.h"
#include "runtime/core/policies/paging_policy.h"
#include "runtime/core/types.h"

/// Policies that know the next use of each page.

namespace sluice::core {

/// Pages by class, and in a class by their next use, the furthest last. Without a schedule no next
/// use is known, and all count as the same. Among pages with the same next use those that leave for
/// free come last. Among these the page that was inserted longest ago comes last. Inserting,
/// changing and removing are O(log n).
class NextUseOrder {
 public:
  static constexpr std::size_t kClasses = 4;
  struct Rank {
    Position next_use = 0;
    std::uint64_t free_and_age = 0;  ///< highest bit: free to leave; below it the age
    PageIndex page = 0;

    /// Ages differ, so that they decide.
    bool operator<(const Rank& other) const {
      return next_use != other.next_use ? next_use < other.next_use
                                        : free_and_age < other.free_and_age;
    }
  };

  using Lasts = std::array<std::optional<Rank>, kClasses>;

  /// Inserts the page. REQUIRES: the page is not there.
  void Insert(const PageFacts& facts, std::size_t page_class);
  /// Changes the facts of a page, which keeps its age. Has no effect on a page that is not there.
  void Change(const PageFacts& facts, std::size_t page_class);
  /// Removes the page. Has no effect on a page that is not there.
  void Remove(PageIndex page);
  /// The last page of the class that `evictable` accepts, if the page is used at `use_min` or
  /// later.
  std::optional<Rank> Last(std::size_t page_class,
                           Position use_min,
                           const std::function<bool(PageIndex)>& evictable) const;
  /// The last page of each class that `evictable` accepts; none in a class without such a page.
  Lasts Furthest(const std::function<bool(PageIndex)>& evictable) const;
  /// The last page of each class among `pages`, all of which are there. O(pages).
  Lasts FurthestAmong(std::span<const PageIndex> pages) const;

 private:
  struct ClassRank {
    Rank rank;
    std::uint8_t page_class = kClasses;  ///< kClasses: not there
  };
  static std::uint64_t FreeBit(const PageFacts& facts);

  std::array<absl::btree_set<Rank>, kClasses> orders_;
  std::vector<ClassRank> places_;  ///< one per page
  std::uint64_t age_ = std::uint64_t{1} << 63;
};

/// A policy that keeps the pages of each tier in the order of their next uses, by the cost of
/// leaving.
class NextUsePolicy : public PagingPolicy {
 public:
  void OnInsert(int tier, const PageFacts& facts) override;
  void OnChange(int tier, const PageFacts& facts) override;
  void OnRemove(int tier, PageIndex page) override;
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override;
  std::optional<PageIndex> VictimAmong(int tier, std::span<const PageIndex> pages) override;
  std::optional<PageIndex> VictimToDrop(int tier,
                                        const std::function<bool(PageIndex)>& evictable) override;
  std::optional<PageIndex> VictimToWrite(int tier,
                                         Position use_min,
                                         const std::function<bool(PageIndex)>& evictable) override;

 protected:
  /// Bits of a class.
  static constexpr std::size_t kCostsOut = 1;
  static constexpr std::size_t kCostsIn = 2;

 private:
  static std::size_t ClassOf(const PageFacts& facts);
  /// Whether page `a` of a class goes before page `b` of another.
  virtual bool Before(std::size_t class_a,
                      const NextUseOrder::Rank& a,
                      std::size_t class_b,
                      const NextUseOrder::Rank& b) const = 0;
  std::optional<PageIndex> FirstOf(const NextUseOrder::Lasts& lasts) const;

  std::vector<NextUseOrder> tiers_ = std::vector<NextUseOrder>(kTiersMax);
};

/// Evicts the page whose next recorded use is furthest away (Belady's MIN on pages; source: Belady,
/// "A study of replacement algorithms", IBM Systems Journal 5(2), 1966).
class MinPolicy final : public NextUsePolicy {
 public:
  std::string_view name() const override { return "min"; }

 private:
  bool Before(std::size_t /*class_a*/,
              const NextUseOrder::Rank& a,
              std::size_t /*class_b*/,
              const NextUseOrder::Rank& b) const override {
    return b < a;
  }
};

/// Evicts the page with the greatest
///     (next use - now) / (1, unless it is free to return + 1, unless it is free to leave):
/// the time that its frame is won for, per transfer that this costs. So among pages with similar
/// next uses the clean go before the dirty. A dirty page goes before a clean one when its next use
/// is more than twice as far. A page that costs nothing goes first, then one without a next use, in
/// either case the cheapest, then the furthest. (Pages are of one size, which cancels out.)
/// O(log n): pages of equal cost are ordered by their next use, whatever now is.
class NextUseCostPolicy : public NextUsePolicy {
 public:
  std::string_view name() const override { return "next-use-cost"; }
  void OnStep(Position now) override { now_ = now; }

 private:
  bool Before(std::size_t class_a,
              const NextUseOrder::Rank& a,
              std::size_t class_b,
              const NextUseOrder::Rank& b) const override;

  Position now_ = 0;
};

/// The policy "planned": next-use-cost where no plan decides.
class PlannedPolicy final : public NextUseCostPolicy {
 public:
  std::string_view name() const override { return "planned"; }
  bool planned() const override { return true; }
};

}  // namespace sluice::core
