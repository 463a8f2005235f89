#include "runtime/engine/data/data_mover.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/control/ticket_state.h"
#include "runtime/engine/data/page_filler.h"
#include "runtime/engine/report/profiler_ranges.h"

namespace sluice::engine {
namespace {

core::LinkDirection DirectionOf(const core::StartCopy& order) {
  return order.target < order.source ? core::LinkDirection::kIn : core::LinkDirection::kOut;
}

core::TierIndex LinkOf(const core::StartCopy& order) {
  return std::min(order.source, order.target);
}

/// Whether a failed read says that the bytes are gone: they are not what was written (DataLoss), or
/// nothing was (NotFound). Every other cause may pass, and the source stays what it was.
bool SourceIsLost(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

/// Whether a failed refill may succeed later: what a file cannot give now it still has, unless it
/// became shorter; a callback says so itself.
bool MayPass(core::FillKind kind, const absl::Status& status) {
  if (kind == core::FillKind::kFile) return !SourceIsLost(status);
  return kind == core::FillKind::kReproduce && absl::IsUnavailable(status);
}

core::CopyPlace FrameOf(core::TierIndex tier, core::FrameIndex frame) {
  return {core::CopyPlace::Kind::kFrame, tier, frame};
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

struct DataMover::FillJob {
  core::StartFill order;
  PageInFrame place;
  int attempts = 0;                         ///< attempts that failed
  LinkMeter::Clock::time_point begun = {};  ///< begin of the last read from a file
};

/// A page that is copied to a frame while that is mapped at the page's address. The thread that
/// brings `missing` to 0 sees all writes before any fall of it.
struct DataMover::Landing {
  std::atomic<int> missing{2};
  std::atomic<int> not_under_way{2};  ///< events to come: the copy's start, the mapping
  absl::Status copied;
  absl::Status mapped;

  /// Whether it was the last of the two.
  bool End() { return missing.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  /// Whether the copy has started, and the mapping is made, with this.
  bool GetUnderWay() { return not_under_way.fetch_sub(1, std::memory_order_acq_rel) == 1; }
};

struct DataMover::CopyJob {
  core::StartCopy order;
  SegmentPtr segment;
  LinkMeter::Clock::time_point begun;
  std::shared_ptr<Landing> landing;  ///< null unless the frame is mapped meanwhile
  ProfilerRange range;

  PageInFrame target() const { return {segment, order.page, order.target, order.target_frame}; }
};

DataMover::DataMover(Parts parts)
    : parts_(std::move(parts)),
      page_mapper_({.tiers = parts_.tiers, .logger = parts_.logger}),
      views_({.tiers = parts_.tiers,
              .mapper = parts_.mapper,
              .logger = parts_.logger,
              .find_newest = parts_.find_newest}),
      timer_("sluice-retry", parts_.cpus) {
  for (core::TierIndex link = 0; link + 1 < parts_.tiers->size(); ++link) {
    const std::string name = parts_.tiers->LinkName(link);
    tracks_[link] = {name + " in", name + " out"};
  }
}

void DataMover::Report(core::TaskNumber task) { parts_.mailbox->Post(Completion{.task = task}); }

void DataMover::ReportFailure(core::TaskNumber task, core::FailureKind kind, absl::Status cause) {
  parts_.mailbox->Post(Completion{task, kind, std::move(cause)});
}

void DataMover::TakeFrame(core::TierIndex tier,
                          core::FrameIndex frame,
                          PageIndex page,
                          bool fills) {
  if (parts_.tiers->is_store(tier)) return;
  views_.TakeFrame(tier, frame, page, fills);
  page_mapper_.Displace(
      tier, frame, page, [this](PageInFrame place) { PostUnmap(std::move(place)); });
}

void DataMover::PostUnmap(PageInFrame place) {
  parts_.mapper->Post([this, place = std::move(place)] { page_mapper_.Unmap(place); });
}

void DataMover::Copy(const core::StartCopy& order, const SegmentPtr& segment) {
  TakeFrame(order.target, order.target_frame, order.page);
  CopyJob job{order, segment, parts_.meters->Of(LinkOf(order), DirectionOf(order)).Begin(), {}};
  if (MapsMeanwhile(order, *segment)) job.landing = std::make_shared<Landing>();
  const bool in = DirectionOf(order) == core::LinkDirection::kIn;
  job.range = ProfilerRange::Begin(in ? ProfilerCategory::kPageIn : ProfilerCategory::kPageOut,
                                   [&] { return segment->NameAt(order.page); });
  views_.Run(order.target, order.target_frame, [this, job = std::move(job)]() mutable {
    if (job.landing != nullptr) MapMeanwhile(job);
    Submit(job);
  });
}

/// Tells the core that the copy has started, or the mapping is made, with nothing else to come.
/// Views are shown once their bytes are complete.
void DataMover::NoteUnderWay(const CopyJob& job) {
  if (job.landing != nullptr && !job.landing->GetUnderWay()) return;
  if (job.segment->readable()) return;
  parts_.mailbox->Post(EventRequest{core::TaskUnderWay{job.order.task}});
}

/// A view is mapped once the bytes are complete: it is readable at any time.
bool DataMover::MapsMeanwhile(const core::StartCopy& order, const Segment& segment) const {
  return order.map && !segment.Shows(order.target);
}

void DataMover::MapMeanwhile(const CopyJob& job) {
  if (page_mapper_.Reuse(job.target())) {
    NoteUnderWay(job);
    job.landing->End();
    return;
  }
  parts_.mapper->Post([this, job] {
    job.landing->mapped = page_mapper_.Map(job.target());
    if (job.landing->mapped.ok()) NoteUnderWay(job);
    if (job.landing->End()) FinishLanding(job);
  });
}

/// Reports a copy whose transfer and mapping have both ended. A page that did not arrive gives up
/// its mapping, as an evicted page does.
void DataMover::FinishLanding(const CopyJob& job) {
  const Landing& landing = *job.landing;
  const core::TaskNumber task = job.order.task;
  if (landing.copied.ok() && landing.mapped.ok()) return Report(task);
  if (landing.mapped.ok()) Leave(job.target());
  if (landing.copied.ok()) {
    return ReportFailure(task, core::FailureKind::kTargetFailed, landing.mapped);
  }
  const bool read = parts_.tiers->is_store(job.order.source);
  ReportFailure(task, KindOf(read, landing.copied), landing.copied);
}

void DataMover::Submit(const CopyJob& job) {
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

void DataMover::Hasten(const core::HastenCopy& order) {
  // Copies between memories are done in their order.
  if (!parts_.tiers->is_store(order.target)) return;
  // The write may wait for a view to leave the slot.
  views_.Run(order.target, order.target_frame, [this, order] {
    parts_.tiers->store()->Hasten(order.target_frame);
  });
}

void DataMover::FinishCopy(const CopyJob& job, const absl::Status& status) {
  const core::StartCopy& order = job.order;
  job.range.End();
  LinkMeter& meter = parts_.meters->Of(LinkOf(order), DirectionOf(order));
  if (!status.ok()) {
    meter.Failed(job.begun);
    const bool read = parts_.tiers->is_store(order.source);
    views_.Spoil(job.segment,
                 order.page,
                 FrameOf(order.target, order.target_frame),
                 FrameOf(order.source, order.source_frame));
    if (job.landing == nullptr) return ReportFailure(order.task, KindOf(read, status), status);
  } else {
    Trace(job, meter.Succeeded(job.begun, parts_.tiers->page_bytes()));
    if (job.landing == nullptr) return Arrived(order.task, job.target(), order.map);
    views_.Arrive(job.segment, order.page, FrameOf(order.target, order.target_frame));
  }
  job.landing->copied = status;
  if (job.landing->End()) FinishLanding(job);
}

void DataMover::Trace(const CopyJob& job, LinkMeter::Clock::time_point end) {
  if (!parts_.trace) return;
  const auto direction = static_cast<std::size_t>(DirectionOf(job.order));
  parts_.trace(TraceSpan{
      tracks_[LinkOf(job.order)][direction], job.segment->NameAt(job.order.page), job.begun, end});
}

void DataMover::Arrived(core::TaskNumber task, const PageInFrame& place, bool map) {
  views_.Arrive(place.segment, place.page, FrameOf(place.tier, place.frame));
  if (map) {
    PostMap(task, place);
  } else {
    Report(task);
  }
}

void DataMover::PostMap(core::TaskNumber task, const PageInFrame& place) {
  const auto end = [this, task](absl::Status status) {
    if (status.ok()) return Report(task);
    ReportFailure(task, core::FailureKind::kTargetFailed, std::move(status));
  };
  if (place.segment->Shows(place.tier)) {
    return views_.Map(place.segment, place.page, FrameOf(place.tier, place.frame), end);
  }
  if (page_mapper_.Reuse(place)) return Report(task);
  parts_.mapper->Post([this, end, place] { end(page_mapper_.Map(place)); });
}

bool DataMover::Fill(const core::StartFill& order, const SegmentPtr& segment) {
  TakeFrame(order.tier, order.frame, order.page, /*fills=*/true);
  const PageInFrame place{segment, order.page, order.tier, order.frame};
  if (order.kind == core::FillKind::kUndefined && !order.map) return FillNothing(order);
  views_.Run(order.tier, order.frame, [this, order, place] {
    if (order.kind == core::FillKind::kUndefined) {
      PostMap(order.task, place);
    } else {
      PostFill({order, place});
    }
  });
  return false;
}

/// Waits for a view that has not left the frame yet, and for nothing else.
bool DataMover::FillNothing(const core::StartFill& order) {
  if (views_.IsLeft(order.tier, order.frame)) return true;
  views_.Run(order.tier, order.frame, [this, task = order.task] { Report(task); });
  return false;
}

void DataMover::PostFill(FillJob job) {
  const Segment::Parts& parts = job.place.segment->parts();
  const bool from_file = job.order.kind == core::FillKind::kFile;
  const bool direct = parts.read_only && parts.file != nullptr && parts.file->direct();
  if (from_file) job.begun = parts_.meters->OfFiles().Begin();
  if (from_file && direct) return ReadHome(std::move(job));
  parts_.workers->Submit([this, job = std::move(job)]() mutable { FillNow(std::move(job)); });
}

/// Many reads are under way at a time; workers verify what has come.
void DataMover::ReadHome(FillJob job) {
  const PageInFrame& place = job.place;
  const Segment& segment = *place.segment;
  const std::uint64_t begin = segment.PageWithin(place.page) * segment.page_bytes();
  const std::span<std::byte> frame = parts_.tiers->memory(place.tier)->Frame(place.frame);
  const HomeFile& file = *segment.parts().file;
  file.StartRead(begin, frame, [this, job = std::move(job), begin, frame](bool read) mutable {
    parts_.workers->Submit([this, job = std::move(job), begin, frame, read]() mutable {
      if (!read) return FillNow(std::move(job));  // says why
      const absl::Status status = job.place.segment->parts().file->FinishRead(begin, frame);
      FinishFill(std::move(job), status);
    });
  });
}

void DataMover::FillNow(FillJob job) {
  const PageInFrame& place = job.place;
  MemoryTier& memory = *parts_.tiers->memory(place.tier);
  if (job.order.kind == core::FillKind::kZero) {
    memory.Fill(
        place.frame, 0, [this, job](const absl::Status& status) { FinishFill(job, status); });
    return;
  }
  // The core has files read and pages reproduced in the host's memory.
  FinishFill(job, FillPage(job.order.kind, *place.segment, place.page, memory.Frame(place.frame)));
}

void DataMover::MeterFile(const FillJob& job, const absl::Status& status) {
  LinkMeter& meter = parts_.meters->OfFiles();
  if (!status.ok()) {
    meter.Failed(job.begun);
    return;
  }
  const auto end = meter.Succeeded(job.begun, parts_.tiers->page_bytes());
  if (!parts_.trace) return;
  const PageInFrame& place = job.place;
  parts_.trace(TraceSpan{"file in", place.segment->NameAt(place.page), job.begun, end});
}

void DataMover::FinishFill(FillJob job, absl::Status status) {
  const PageInFrame& place = job.place;
  const core::FillKind kind = job.order.kind;
  if (kind == core::FillKind::kFile) MeterFile(job, status);
  if (status.ok()) return Arrived(job.order.task, place, job.order.map);
  const core::TaskNumber task = job.order.task;
  if (!MayPass(kind, status)) {
    return ReportFailure(task, core::FailureKind::kSourceLost, std::move(status));
  }
  if (++job.attempts < backoff_.attempts_max) {
    const auto pause = backoff_.PauseAfter(job.attempts);
    if (timer_.After(pause, [this, job] { PostFill(job); })) return;
  }
  ReportFailure(task, core::FailureKind::kTargetFailed, std::move(status));
}

void DataMover::Map(const core::StartMap& order, const SegmentPtr& segment) {
  PostMap(order.task, PageInFrame{segment, order.page, order.tier, order.frame});
}

void DataMover::Drop(const core::DropFrame& order, const SegmentPtr& segment) {
  const ProfilerRange range =
      ProfilerRange::Begin(ProfilerCategory::kEvict, [&] { return segment->NameAt(order.page); });
  DropNow(order, segment);
  range.End();
}

void DataMover::DropNow(const core::DropFrame& order, const SegmentPtr& segment) {
  if (parts_.tiers->is_store(order.tier)) {
    views_.LeaveSlot(segment, order.page, FrameOf(order.tier, order.frame));
    views_.Run(
        order.tier, order.frame, [this, order] { parts_.tiers->store()->Forget(order.frame); });
  } else if (order.mapped && !segment->Shows(order.tier)) {
    Leave({segment, order.page, order.tier, order.frame});
  }
}

void DataMover::Leave(const PageInFrame& place) {
  page_mapper_.Leave(place, [this](PageInFrame left) { PostUnmap(std::move(left)); });
}

void DataMover::WhenLeft(core::TierIndex tier,
                         std::span<const core::FrameIndex> frames,
                         PageViews::Job job) {
  views_.RunAll(tier, frames, std::move(job));
}

void DataMover::Grant(const std::shared_ptr<internal::TicketState>& ticket,
                      std::vector<core::FrameIndex> frames,
                      const PageOwners& owners) {
  if (!views_.used()) return ticket->Grant(std::move(frames));
  const std::vector<core::PageRequest>& requests = ticket->draft().requests;
  bool shown = true;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const core::PageRequest& request = requests[i];
    const SegmentPtr& segment = owners.Owner(request.page);
    const bool at_address = request.map && segment->Shows(request.tier);
    if (!segment->readable() || (!at_address && !core::IsWrite(request.mode))) continue;
    shown = views_.Show(segment, request.page, FrameOf(request.tier, frames[i])) && shown;
  }
  if (shown) return ticket->Grant(std::move(frames));
  std::vector<SegmentPtr> segments;
  for (const core::PageRequest& request : requests) segments.push_back(owners.Owner(request.page));
  views_.RunLast(
      [this, ticket, segments = std::move(segments), frames = std::move(frames)]() mutable {
        GrantShown(*ticket, segments, std::move(frames));
      });
}

void DataMover::GrantShown(internal::TicketState& ticket,
                           std::span<const SegmentPtr> segments,
                           std::vector<core::FrameIndex> frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const core::PageRequest& request = ticket.draft().requests[i];
    const bool at_address = request.map && segments[i]->Shows(request.tier);
    if (!at_address || views_.Shows(request.page, FrameOf(request.tier, frames[i]))) continue;
    ticket.Fail(absl::ResourceExhaustedError(
        fmt::format("a page of tensor '{}' cannot be mapped for a lease (see vm.max_map_count)",
                    segments[i]->NameAt(request.page))));
    return parts_.mailbox->Post(CancelNotice{ticket.number()});
  }
  ticket.Grant(std::move(frames));
}

void DataMover::Resize(core::TierIndex tier,
                       core::FrameIndex frames,
                       absl::AnyInvocable<void(absl::Status)> done) {
  parts_.mapper->Post([this, tier, frames, done = std::move(done)]() mutable {
    done(page_mapper_.Resize(tier, frames));
  });
}

void DataMover::BeginIteration() {
  parts_.mapper->Post([this] {
    LetMemoryGo();  // memory of the iteration before
    for (core::TierIndex tier = 0; tier < parts_.tiers->size(); ++tier) {
      if (!parts_.tiers->is_store(tier)) parts_.tiers->memory(tier)->KeepMemory();
    }
  });
}

void DataMover::EndIteration() {
  parts_.mapper->Post([this] { LetMemoryGo(); });
}

void DataMover::LetMemoryGo() {
  for (core::TierIndex tier = 0; tier < parts_.tiers->size(); ++tier) {
    if (parts_.tiers->is_store(tier)) continue;
    const absl::Status gone = parts_.tiers->memory(tier)->LetMemoryGo();
    if (gone.ok()) continue;
    parts_.logger->Warning(fmt::format("memory of {} was not given back: {}",
                                       ToString(parts_.tiers->id(tier)),
                                       base::ToStd(gone.message())));
  }
}

void DataMover::Retire(SegmentPtr segment, const PageRun& run) {
  page_mapper_.Forget(run, [this](PageInFrame place) { PostUnmap(std::move(place)); });
  if (segment != nullptr) views_.Forget(segment, run);
  parts_.mapper->Post([segment = std::move(segment)]() mutable { segment.reset(); });
}

}  // namespace sluice::engine
