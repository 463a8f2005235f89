#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "runtime/engine/data/page_owners.h"
#include "runtime/engine/data/segment.h"
#include "runtime/engine/mover/page_arrivals.h"
#include "runtime/engine/mover/page_copies.h"
#include "runtime/engine/mover/page_fills.h"
#include "runtime/engine/views/page_views.h"

namespace sluice::engine {

/// Turns the core's orders into copies, fills and mappings, and posts a Completion for each task.
/// Threads: orders from the core thread; nothing here blocks it or touches bytes on it.
class DataMover {
 public:
  using Parts = MoverParts;
  using SegmentPtr = std::shared_ptr<Segment>;

  /// `parts` outlive the mover and its last completion.
  explicit DataMover(Parts parts);

  void Copy(const core::StartCopy& order, const SegmentPtr& segment) {
    copies_.Start(order, segment);
  }
  /// Makes a copy urgent that was started and has not ended.
  void Hasten(const core::HastenCopy& order) { copies_.Hasten(order); }
  /// Starts the task. True: it is complete already, as nothing was to be done, and no Completion
  /// follows.
  bool Fill(const core::StartFill& order, const SegmentPtr& segment) {
    return fills_.Start(order, segment);
  }
  void Map(const core::StartMap& order, const SegmentPtr& segment);
  void Drop(const core::DropFrame& order, const SegmentPtr& segment);
  /// Notes that the frame is the page's from now on, or, with kNoPage, a reservation's. Copy and
  /// Fill call it themselves. `fills`: see PageViews::TakeFrame.
  void TakeFrame(core::TierIndex tier, core::FrameIndex frame, PageIndex page, bool fills = false) {
    arrivals_.TakeFrame(tier, frame, page, fills);
  }
  /// Runs `job` once no view shows the frames that were taken.
  void WhenLeft(core::TierIndex tier, std::span<const core::FrameIndex> frames, PageViews::Job job);
  /// Tells the ticket that its pages are in these frames. Pages that views must show are shown
  /// first.
  void Grant(const std::shared_ptr<internal::TicketState>& ticket,
             std::vector<core::FrameIndex> frames,
             const PageOwners& owners);
  /// Contents that pages show outside a lease.
  PageViews& views() { return arrivals_.views(); }
  /// Gives a tier's frames from `frames` on back to the system, or takes them again. It does so
  /// once every mapping change asked for before is done, then calls `done` on the mapper thread.
  void Resize(core::TierIndex tier,
              core::FrameIndex frames,
              absl::AnyInvocable<void(absl::Status)> done);
  /// Memory that goes back only when a GPU's kernels are done stays between these two calls.
  /// Threads: any.
  void BeginIteration();
  void EndIteration();
  /// Unmaps pages that were freed, then lets the segment go. Its addresses go with its last pages.
  /// REQUIRES: the page indices are nobody else's yet.
  void Retire(SegmentPtr segment, const PageRun& run);

 private:
  void GrantShown(internal::TicketState& ticket,
                  std::span<const SegmentPtr> segments,
                  std::vector<core::FrameIndex> frames);
  void DropNow(const core::DropFrame& order, const SegmentPtr& segment);
  void LetMemoryGo();

  const Parts parts_;
  PageArrivals arrivals_;
  PageCopies copies_;
  PageFills fills_;
};

}  // namespace sluice::engine
