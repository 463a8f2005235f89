#pragma once

#include <cstddef>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "sluice/policy.h"

namespace sluice::core {

/// Pages that have left, the latest last. All operations are O(1).
class GhostList {
 public:
  /// Puts the page last, even if it is already listed.
  void Push(PageIndex page) {
    Erase(page);
    where_[page] = order_.insert(order_.end(), page);
  }
  /// Removes the page. Returns false if the page is not listed.
  bool Erase(PageIndex page) {
    const auto found = where_.find(page);
    if (found == where_.end()) return false;
    order_.erase(found->second);
    where_.erase(found);
    return true;
  }
  bool Contains(PageIndex page) const { return where_.contains(page); }
  /// Forgets the page that has been listed for longest, and returns it. REQUIRES: size() > 0.
  PageIndex DropOldest() {
    const PageIndex page = order_.front();
    Erase(page);
    return page;
  }
  void Trim(std::size_t most) {
    while (order_.size() > most) DropOldest();
  }
  std::size_t size() const { return order_.size(); }

 private:
  std::list<PageIndex> order_;
  absl::flat_hash_map<PageIndex, std::list<PageIndex>::iterator> where_;
};

}  // namespace sluice::core
