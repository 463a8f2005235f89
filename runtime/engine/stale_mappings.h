#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "runtime/engine/logger.h"
#include "runtime/engine/segment.h"
#include "runtime/engine/tier_set.h"

namespace sluice::engine {

/// Mappings of pages that were evicted, to be dropped in runs of neighbours: every dropped run
/// interrupts the processors that compute, to flush their address translations, however long it
/// is. A page that comes back first is mapped over and costs nothing. Until it is dropped a stale
/// mapping shows the frame's next content; no lease covers it. Threads: the mapper thread.
class StaleMappings {
 public:
  using SegmentPtr = std::shared_ptr<Segment>;
  /// Pages that are gathered at most before all of them are dropped.
  static constexpr std::size_t kPagesMax = 64;

  /// Both outlive the object.
  StaleMappings(const TierSet& tiers, Logger& logger) : tiers_(tiers), logger_(logger) {}

  void Add(core::TierIndex tier, PageIndex page, SegmentPtr segment);
  /// The page was mapped again.
  void Replaced(core::TierIndex tier, PageIndex page) { pages_.erase({tier, page}); }
  /// The segment's addresses are given up, and every mapping with them.
  void Forget(const Segment& segment);
  /// Makes what was gathered inaccessible.
  void DropAll();

 private:
  using Pages = std::map<std::pair<core::TierIndex, PageIndex>, SegmentPtr>;

  void DropRun(Pages::iterator first, std::uint64_t pages);

  const TierSet& tiers_;
  Logger& logger_;
  Pages pages_;
};

}  // namespace sluice::engine
