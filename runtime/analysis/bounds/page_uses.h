#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/analysis/bounds/page_visits.h"

namespace sluice::analysis {

/// Use of one item, that is of pages that are visited alike, by an op above a link.
struct PageUse {
  std::uint32_t item = 0;
  std::uint64_t pages = 0;
  /// Whether the old content is needed, so that it is fetched if the pages are not above.
  bool needs_content = false;
  /// Number of ops from the item's use before, and to its next one, cyclically; op_count if it is
  /// the only use.
  std::uint32_t previous_ops = 0;
  std::uint32_t next_ops = 0;
  /// Whether a page that stays until the next use saves a fetch.
  bool next_keepable = false;
  /// Number of ops for which the op's written content is needed (PageVisit::fresh_ops), all of them
  /// above. 0: it is not needed, or it is met below.
  std::uint32_t fresh_ops = 0;
};

/// Content that was written above `ops` ago and is met below now.
struct MetBelow {
  std::uint64_t pages = 0;
  std::uint32_t ops = 0;
};

/// One iteration as a cycle of ops, with the uses of each above the link.
class PageUses {
 public:
  PageUses(const PageVisits& visits, std::uint64_t capacity);

  std::uint32_t op_count() const { return static_cast<std::uint32_t>(pinned_.size()); }
  std::uint32_t item_count() const { return item_count_; }
  std::uint64_t capacity() const { return capacity_; }
  std::span<const PageUse> Of(std::uint32_t op) const {
    return std::span(uses_).subspan(begin_[op], begin_[op + 1] - begin_[op]);
  }
  std::span<const MetBelow> MetAt(std::uint32_t op) const { return met_[op]; }
  /// Number of pages that the op holds at once; 0 for an op that needs more than the capacity.
  std::uint64_t pinned(std::uint32_t op) const { return pinned_[op]; }
  /// Number of pages above the link that are left for other ops' pages while the op runs.
  std::uint64_t room(std::uint32_t op) const { return capacity_ - pinned_[op]; }

 private:
  void AddItem(std::uint32_t item,
               std::uint64_t pages,
               std::span<const PageVisit> visits,
               std::vector<std::vector<PageUse>>* ops);
  void Flatten(const std::vector<std::vector<PageUse>>& ops);

  const std::uint64_t capacity_;
  const std::uint32_t item_count_;
  std::vector<PageUse> uses_;
  std::vector<std::size_t> begin_;
  std::vector<std::uint64_t> pinned_;
  std::vector<std::vector<MetBelow>> met_;
};

}  // namespace sluice::analysis
