#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/policies/ghost_list.h"
#include "runtime/core/policies/page_order.h"
#include "runtime/core/policies/replacement.h"

namespace sluice::core {

/// S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023). Pages come
/// into a small FIFO. Pages used more than once there go on to the main one; the others are evicted
/// and remembered. A page that comes back while remembered goes to the main queue at once. The main
/// queue gives a page as many second chances as it has been used, up to three.
class S3Fifo : public Replacement {
 public:
  void Resize(std::uint64_t frames) override;
  void Come(PageIndex page) override;
  void Use(PageIndex page, bool first) override;
  void Show(PageIndex page, bool shown) override;
  void Leave(PageIndex page, bool victim) override;
  void Forget(PageIndex page) override { ghost_.Erase(page); }
  std::optional<PageIndex> Victim(std::optional<PageIndex>, const Evictable& evictable) override;

 private:
  /// Moves of pages that follow once the answer to a question is followed.
  struct Moves {
    std::optional<PageIndex> answer;
    std::vector<PageIndex> promoted;  ///< pages that move from the small queue to the main one
    /// Pages of the main queue that are looked at, in order; the victim is one of them. Each page
    /// loses `rounds` uses. Pages before the victim lose one more, and go to the end.
    std::vector<PageIndex> looked_at;
    std::uint8_t rounds = 0;
  };

  bool LookInSmall(const Evictable& evictable, bool to_the_end);
  bool LookInMain(const Evictable& evictable);
  void CarryOut();

  std::uint64_t frames_ = 1;
  PageOrder<std::uint64_t> small_;
  PageOrder<std::uint64_t> main_;
  GhostList ghost_;
  absl::flat_hash_map<PageIndex, std::uint8_t> uses_;  ///< uses of each page since it came
  std::uint64_t clock_ = 0;
  Moves moves_;
};

}  // namespace sluice::core
