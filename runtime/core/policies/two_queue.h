#pragma once

#include <cstdint>
#include <optional>

#include "runtime/core/policies/ghost_list.h"
#include "runtime/core/policies/page_order.h"
#include "runtime/core/policies/replacement.h"

namespace sluice::core {

/// 2Q, full version (Johnson and Shasha, "2Q: a low overhead high performance buffer management
/// replacement algorithm", VLDB 1994): Pages come into A1in, a FIFO. The indices of pages evicted
/// from it are remembered in A1out. A page that comes back while it is there goes to Am, an LRU
/// list.
class TwoQueue : public Replacement {
 public:
  void Resize(std::uint64_t frames) override;
  void Come(PageIndex page) override;
  void Use(PageIndex page, bool first) override;
  void Show(PageIndex page, bool shown) override;
  void Leave(PageIndex page, bool victim) override;
  void Forget(PageIndex page) override { out_.Erase(page); }
  std::optional<PageIndex> Victim(std::optional<PageIndex>, const Evictable& evictable) override;

 private:
  std::uint64_t in_max_ = 0;
  std::uint64_t out_max_ = 0;
  PageOrder<std::uint64_t> in_;    ///< A1in
  PageOrder<std::uint64_t> main_;  ///< Am
  GhostList out_;                  ///< A1out
  std::uint64_t clock_ = 0;
};

}  // namespace sluice::core
