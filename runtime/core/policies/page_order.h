#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "sluice/policy.h"

namespace sluice::core {

/// The pages of one list of a policy in the order of their keys, the first to leave first. A page
/// that may not be evicted for a time (it is leased or in motion) is hidden. A hidden page is
/// passed over without a look, counts, and comes back to its place. The keys of a queue are growing
/// numbers. All operations are O(log n).
template <typename Key>
class PageOrder {
 public:
  using Shown = absl::btree_set<std::pair<Key, PageIndex>>;

  /// Adds the page. REQUIRES: the page is not there.
  void Add(PageIndex page, const Key& key, bool shown = false) {
    const bool added = all_.try_emplace(page, ShownKey{key, shown}).second;
    SLUICE_CHECK(added, "a page has one place in an order");
    if (shown) shown_.emplace(key, page);
  }

  /// Gives the page another key. REQUIRES: it is there.
  void Move(PageIndex page, const Key& key) {
    ShownKey& place = all_.at(page);
    if (place.shown) {
      shown_.erase({place.key, page});
      shown_.emplace(key, page);
    }
    place.key = key;
  }

  /// Shows or hides the page. Has no effect on a page that is not there.
  void Show(PageIndex page, bool shown) {
    const auto found = all_.find(page);
    if (found == all_.end() || found->second.shown == shown) return;
    found->second.shown = shown;
    if (shown) {
      shown_.emplace(found->second.key, page);
    } else {
      shown_.erase({found->second.key, page});
    }
  }

  /// Removes the page. Returns false if the page is not there.
  bool Remove(PageIndex page) {
    Show(page, false);
    return all_.erase(page) > 0;
  }

  bool Contains(PageIndex page) const { return all_.contains(page); }
  /// Key of the page. REQUIRES: the page is there.
  const Key& KeyOf(PageIndex page) const { return all_.at(page).key; }
  bool IsShown(PageIndex page) const { return all_.at(page).shown; }

  /// Number of pages, hidden ones included.
  std::size_t size() const { return all_.size(); }
  const Shown& shown() const { return shown_; }

  /// The first shown page that `evictable` accepts.
  template <typename Evictable>
  std::optional<PageIndex> First(const Evictable& evictable) const {
    for (const auto& [key, page] : shown_) {
      if (evictable(page)) return page;
    }
    return std::nullopt;
  }

 private:
  struct ShownKey {
    Key key;
    bool shown = false;
  };

  absl::flat_hash_map<PageIndex, ShownKey> all_;
  Shown shown_;
};

}  // namespace sluice::core
