#include "runtime/engine/mover/page_copies.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "runtime/engine/mover/lost_source.h"
#include "runtime/engine/report/profiler_ranges.h"

namespace sluice::engine {
namespace {

core::LinkDirection DirectionOf(const core::StartCopy& order) {
  return order.target < order.source ? core::LinkDirection::kIn : core::LinkDirection::kOut;
}

core::TierIndex LinkOf(const core::StartCopy& order) {
  return std::min(order.source, order.target);
}

/// Kind of a failed copy for the core. A failed write, or a failed copy between memories, leaves
/// the source as it was. So does a read that failed for another cause than the bytes. A dead GPU
/// has lost them.
core::FailureKind KindOf(bool read_from_store, const absl::Status& status) {
  if (read_from_store && !SourceIsLost(status)) return core::FailureKind::kSourceRefused;
  if (read_from_store || absl::IsDataLoss(status)) return core::FailureKind::kSourceLost;
  return status.code() == absl::StatusCode::kResourceExhausted ? core::FailureKind::kTargetFull
                                                               : core::FailureKind::kTargetFailed;
}

}  // namespace

/// A page that is copied to a frame while that is mapped at the page's address. The thread that
/// brings `missing` to 0 sees all writes before any fall of it.
struct PageCopies::Landing {
  std::atomic<int> missing{2};
  std::atomic<int> not_under_way{2};  ///< events to come: the copy's start, the mapping
  absl::Status copied;
  absl::Status mapped;

  /// Whether it was the last of the two.
  bool End() { return missing.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  /// Whether the copy has started, and the mapping is made, with this.
  bool GetUnderWay() { return not_under_way.fetch_sub(1, std::memory_order_acq_rel) == 1; }
};

struct PageCopies::CopyJob {
  core::StartCopy order;
  SegmentPtr segment;
  LinkMeter::Clock::time_point begun;
  std::shared_ptr<Landing> landing;  ///< null unless the frame is mapped meanwhile
  ProfilerRange range;

  PageInFrame target() const { return {segment, order.page, order.target, order.target_frame}; }
};

PageCopies::PageCopies(const MoverParts& parts, PageArrivals& arrivals)
    : parts_(parts), arrivals_(arrivals) {
  for (core::TierIndex link = 0; link + 1 < parts_.tiers->size(); ++link) {
    const std::string name = parts_.tiers->LinkName(link);
    tracks_[link] = {name + " in", name + " out"};
  }
}

void PageCopies::Start(const core::StartCopy& order, const SegmentPtr& segment) {
  arrivals_.TakeFrame(order.target, order.target_frame, order.page);
  CopyJob job{order, segment, parts_.meters->Of(LinkOf(order), DirectionOf(order)).Begin(), {}};
  if (MapsMeanwhile(order, *segment)) job.landing = std::make_shared<Landing>();
  const bool in = DirectionOf(order) == core::LinkDirection::kIn;
  job.range = ProfilerRange::Begin(in ? ProfilerCategory::kPageIn : ProfilerCategory::kPageOut,
                                   [&] { return segment->NameAt(order.page); });
  arrivals_.views().Run(order.target, order.target_frame, [this, job = std::move(job)]() mutable {
    if (job.landing != nullptr) MapMeanwhile(job);
    Submit(job);
  });
}

/// Tells the core that the copy has started, or the mapping is made, with nothing else to come.
/// Views are shown once their bytes are complete.
void PageCopies::NoteUnderWay(const CopyJob& job) {
  if (job.landing != nullptr && !job.landing->GetUnderWay()) return;
  if (job.segment->readable()) return;
  parts_.mailbox->Post(EventRequest{core::TaskUnderWay{job.order.task}});
}

/// A view is mapped once the bytes are complete: it is readable at any time.
bool PageCopies::MapsMeanwhile(const core::StartCopy& order, const Segment& segment) const {
  return order.map && !segment.Shows(order.target);
}

void PageCopies::MapMeanwhile(const CopyJob& job) {
  if (arrivals_.mapper().Reuse(job.target())) {
    NoteUnderWay(job);
    job.landing->End();
    return;
  }
  parts_.mapper->Post([this, job] {
    job.landing->mapped = arrivals_.mapper().Map(job.target());
    if (job.landing->mapped.ok()) NoteUnderWay(job);
    if (job.landing->End()) FinishLanding(job);
  });
}

/// Reports a copy whose transfer and mapping have both ended. A page that did not arrive gives up
/// its mapping, as an evicted page does.
void PageCopies::FinishLanding(const CopyJob& job) {
  const Landing& landing = *job.landing;
  const core::TaskNumber task = job.order.task;
  if (landing.copied.ok() && landing.mapped.ok()) return arrivals_.Report(task);
  if (landing.mapped.ok()) arrivals_.Leave(job.target());
  if (landing.copied.ok()) {
    return arrivals_.ReportFailure(task, core::FailureKind::kTargetFailed, landing.mapped);
  }
  const bool read = parts_.tiers->is_store(job.order.source);
  arrivals_.ReportFailure(task, KindOf(read, landing.copied), landing.copied);
}

void PageCopies::Submit(const CopyJob& job) {
  const TierSet& tiers = *parts_.tiers;
  const core::StartCopy& order = job.order;
  const io::PageIdentity identity{
      order.segment, job.segment->PageWithin(order.page), order.generation};
  const auto done = [this, job](const absl::Status& status) { FinishCopy(job, status); };
  if (tiers.is_store(order.source)) {
    const auto frame = tiers.memory(order.target)->Frame(order.target_frame);
    tiers.store()->Read(order.source_frame, identity, frame, done);
  } else if (tiers.is_store(order.target)) {
    const auto frame = tiers.memory(order.source)->Frame(order.source_frame);
    tiers.store()->Write(order.target_frame, identity, frame, done);
    if (order.urgent) tiers.store()->Hasten(order.target_frame);
  } else if (DirectionOf(order) == core::LinkDirection::kIn) {
    MemoryTier& dram = *tiers.memory(order.source);
    const auto started = [this, job] { NoteUnderWay(job); };
    dram.WhenSettled(order.source_frame, [&tiers, &dram, order, started, done] {
      tiers.device()->CopyIn(dram.Frame(order.source_frame), order.target_frame, started, done);
    });
  } else {
    MemoryTier& dram = *tiers.memory(order.target);
    dram.WhenSettled(order.target_frame, [&tiers, &dram, order, done] {
      tiers.device()->CopyOut(order.source_frame, dram.Frame(order.target_frame), done);
    });
  }
}

void PageCopies::Hasten(const core::HastenCopy& order) {
  // Copies between memories are done in their order.
  if (!parts_.tiers->is_store(order.target)) return;
  // The write may wait for a view to leave the slot.
  arrivals_.views().Run(order.target, order.target_frame, [this, order] {
    parts_.tiers->store()->Hasten(order.target_frame);
  });
}

void PageCopies::FinishCopy(const CopyJob& job, const absl::Status& status) {
  const core::StartCopy& order = job.order;
  job.range.End();
  LinkMeter& meter = parts_.meters->Of(LinkOf(order), DirectionOf(order));
  if (!status.ok()) {
    meter.Failed(job.begun);
    const bool read = parts_.tiers->is_store(order.source);
    arrivals_.views().Spoil(job.segment,
                            order.page,
                            FrameOf(order.target, order.target_frame),
                            FrameOf(order.source, order.source_frame));
    if (job.landing == nullptr)
      return arrivals_.ReportFailure(order.task, KindOf(read, status), status);
  } else {
    Trace(job, meter.Succeeded(job.begun, parts_.tiers->page_bytes()));
    if (job.landing == nullptr) return arrivals_.Arrive(order.task, job.target(), order.map);
    arrivals_.views().Arrive(job.segment, order.page, FrameOf(order.target, order.target_frame));
  }
  job.landing->copied = status;
  if (job.landing->End()) FinishLanding(job);
}

void PageCopies::Trace(const CopyJob& job, LinkMeter::Clock::time_point end) {
  if (!parts_.trace) return;
  const auto direction = static_cast<std::size_t>(DirectionOf(job.order));
  parts_.trace(TraceSpan{
      tracks_[LinkOf(job.order)][direction], job.segment->NameAt(job.order.page), job.begun, end});
}

}  // namespace sluice::engine
