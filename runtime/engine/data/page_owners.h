#pragma once

#include <memory>
#include <vector>

#include "runtime/engine/api/request_builder.h"
#include "runtime/engine/api/tensor_table.h"
#include "runtime/engine/data/segment.h"

namespace sluice::engine {

/// Segment of each page index, as the core sees it. Threads: the core thread only.
class PageOwners {
 public:
  void Add(const std::shared_ptr<Segment>& segment);
  /// Notes that the pages are being freed: no new request may name them.
  void MarkDying(PageRun run);
  /// Forgets the pages. Returns their segment, for its last pages too.
  std::shared_ptr<Segment> Remove(PageRun run);

  /// REQUIRES: the page was added and not removed.
  const std::shared_ptr<Segment>& Owner(PageIndex page) const;
  /// Whether all pages still belong to the segment and are not being freed. Another thread may have
  /// freed them since the look-up.
  bool Usable(core::SegmentIndex segment, PageRun run) const;
  /// The first access whose tensor was freed meanwhile; null when there is none.
  const LeaseDraft* FirstUnusable(const TicketDraft& draft) const;

 private:
  struct Owned {
    std::shared_ptr<Segment> segment;
    bool dying = false;
  };
  std::vector<Owned> pages_;
};

}  // namespace sluice::engine
