#pragma once

#include <memory>
#include <vector>

#include "runtime/engine/api/request_builder.h"
#include "runtime/engine/api/tensor_table.h"
#include "runtime/engine/data/segment.h"

namespace sluice::engine {

/// Which segment each page index belongs to, as the core sees it. Threads: the core thread only.
class PageOwners {
 public:
  void Add(const std::shared_ptr<Segment>& segment);
  /// The pages are being freed: nothing new may name them.
  void MarkDying(PageRun run);
  /// The pages are gone; the segment, for its last pages too.
  std::shared_ptr<Segment> Remove(PageRun run);

  /// REQUIRES: the page was added and not removed.
  const std::shared_ptr<Segment>& Owner(PageIndex page) const;
  /// Whether all pages still belong to the segment and are not being freed: another thread may have
  /// freed them between the look-up and the arrival here.
  bool Usable(core::SegmentIndex segment, PageRun run) const;
  /// The first access whose tensor was freed meanwhile; null when there is none.
  const AccessPlan* FirstUnusable(const TicketPlan& plan) const;

 private:
  struct Owned {
    std::shared_ptr<Segment> segment;
    bool dying = false;
  };
  std::vector<Owned> pages_;
};

}  // namespace sluice::engine
