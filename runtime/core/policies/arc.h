#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "runtime/core/policies/ghost_list.h"
#include "runtime/core/policies/page_order.h"
#include "runtime/core/policies/replacement.h"

namespace sluice::core {

/// ARC (Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003): T1
/// holds pages used once, T2 pages used again. B1 and B2 remember the pages that each has lost.
/// `p`, the share of T1, follows the pages that come back from them. Names as in Figure 4 of the
/// paper.
class Arc : public Replacement {
 public:
  void Resize(std::uint64_t frames) override;
  void Come(PageIndex page) override;
  void Use(PageIndex page, bool first) override;
  void Show(PageIndex page, bool shown) override;
  void Leave(PageIndex page, bool victim) override;
  void Forget(PageIndex page) override;
  std::optional<PageIndex> Victim(std::optional<PageIndex> incoming,
                                  const Evictable& evictable) override;

 private:
  /// The value of p once `page` has come: p changes if the page is remembered.
  double TargetAfter(std::optional<PageIndex> page) const;
  void Adapt(PageIndex page);
  void TrimGhosts();

  double c_ = 1;
  double p_ = 0;
  PageOrder<std::uint64_t> t1_;
  PageOrder<std::uint64_t> t2_;
  GhostList b1_;
  GhostList b2_;
  /// Remembered pages that p has followed already, when the first victim left for them.
  absl::flat_hash_set<PageIndex> adapted_;
  std::optional<PageIndex> incoming_;  ///< page of the last question
  std::uint64_t clock_ = 0;
};

}  // namespace sluice::core
