#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/timer.h"
#include "base/worker_pool.h"
#include "runtime/core/actions.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/data/link_meter.h"
#include "runtime/engine/data/page_mapper.h"
#include "runtime/engine/data/page_owners.h"
#include "runtime/engine/data/segment.h"
#include "runtime/engine/data/serial_executor.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/logger.h"
#include "runtime/engine/views/page_views.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Turns the core's orders into copies, fills and mappings, and posts a Completion for each task.
/// Mappings and unmappings run on the mapper thread in the order of their requests. So an earlier
/// unmapping never hits a page that has come back. Threads: orders from the core thread; nothing
/// here blocks it or touches bytes on it.
class DataMover {
 public:
  struct Parts {
    const TierSet* tiers = nullptr;
    SerialExecutor* mapper = nullptr;
    base::WorkerPool* workers = nullptr;
    Mailbox* mailbox = nullptr;
    LinkMeters* meters = nullptr;
    Logger* logger = nullptr;
    TraceSink trace;
    std::vector<int>
        cpus;  ///< processors of the thread that tries again; empty: processors of its maker
    /// See PageViews::Options; unset where no segment is readable outside a lease.
    std::function<core::NewestCopy(PageIndex)> find_newest;
  };
  using SegmentPtr = std::shared_ptr<Segment>;

  /// `parts` outlive the mover and its last completion.
  explicit DataMover(Parts parts);

  void Copy(const core::StartCopy& order, const SegmentPtr& segment);
  /// Makes a copy urgent that was started and has not ended.
  void Hasten(const core::HastenCopy& order);
  /// Starts the task. True: it is complete already, as nothing was to be done, and no Completion
  /// follows.
  bool Fill(const core::StartFill& order, const SegmentPtr& segment);
  void Map(const core::StartMap& order, const SegmentPtr& segment);
  void Drop(const core::DropFrame& order, const SegmentPtr& segment);
  /// Notes that the frame is the page's from now on, or, with kNoPage, a reservation's. Copy and
  /// Fill call it themselves. `fills`: see PageViews::TakeFrame.
  void TakeFrame(core::TierIndex tier, core::FrameIndex frame, PageIndex page, bool fills = false);
  /// Runs `job` once no view shows the frames that were taken.
  void WhenLeft(core::TierIndex tier, std::span<const core::FrameIndex> frames, PageViews::Job job);
  /// Tells the ticket that its pages are in these frames. Pages that views must show are shown
  /// first.
  void Grant(const std::shared_ptr<internal::TicketState>& ticket,
             std::vector<core::FrameIndex> frames,
             const PageOwners& owners);
  /// Contents that pages show outside a lease.
  PageViews& views() { return views_; }
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
  struct CopyJob;
  struct FillJob;
  struct Landing;

  void Submit(const CopyJob& job);
  void NoteUnderWay(const CopyJob& job);
  void GrantShown(internal::TicketState& ticket,
                  std::span<const SegmentPtr> segments,
                  std::vector<core::FrameIndex> frames);
  void DropNow(const core::DropFrame& order, const SegmentPtr& segment);
  bool FillNothing(const core::StartFill& order);
  void FinishCopy(const CopyJob& job, const absl::Status& status);
  void FinishLanding(const CopyJob& job);
  bool MapsMeanwhile(const core::StartCopy& order, const Segment& segment) const;
  void MapMeanwhile(const CopyJob& job);
  void Trace(const CopyJob& job, LinkMeter::Clock::time_point end);
  void PostFill(FillJob job);
  void ReadHome(FillJob job);
  void FillNow(FillJob job);
  void MeterFile(const FillJob& job, const absl::Status& status);
  void FinishFill(FillJob job, absl::Status status);
  void Arrived(core::TaskNumber task, const PageInFrame& place, bool map);
  void PostMap(core::TaskNumber task, const PageInFrame& place);
  void PostUnmap(PageInFrame place);
  void Leave(const PageInFrame& place);
  void LetMemoryGo();
  void Report(core::TaskNumber task);
  void ReportFailure(core::TaskNumber task, core::FailureKind kind, absl::Status cause);

  const Parts parts_;
  std::array<std::array<std::string, 2>, core::kTiersMax - 1> tracks_;
  const base::Backoff backoff_;
  PageMapper page_mapper_;
  PageViews views_;
  base::Timer timer_;
};

}  // namespace sluice::engine
