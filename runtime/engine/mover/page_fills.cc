#include "runtime/engine/mover/page_fills.h"

#include <utility>

#include "absl/status/status.h"
#include "runtime/engine/mover/lost_source.h"
#include "runtime/engine/mover/page_filler.h"

namespace sluice::engine {
namespace {

/// Whether a failed refill may succeed later: what a file cannot give now it still has, unless it
/// became shorter; a callback says so itself.
bool MayPass(core::FillKind kind, const absl::Status& status) {
  if (kind == core::FillKind::kFile) return !SourceIsLost(status);
  return kind == core::FillKind::kReproduce && absl::IsUnavailable(status);
}

}  // namespace

struct PageFills::FillJob {
  core::StartFill order;
  PageInFrame place;
  int attempts = 0;                         ///< attempts that failed
  LinkMeter::Clock::time_point begun = {};  ///< begin of the last read from a file
};

PageFills::PageFills(const MoverParts& parts, PageArrivals& arrivals)
    : parts_(parts), arrivals_(arrivals), timer_("sluice-retry", parts.cpus) {}

bool PageFills::Start(const core::StartFill& order, const SegmentPtr& segment) {
  arrivals_.TakeFrame(order.tier, order.frame, order.page, /*fills=*/true);
  const PageInFrame place{segment, order.page, order.tier, order.frame};
  const bool maps = order.map && !segment->Shows(order.tier);
  if (order.kind == core::FillKind::kUndefined && !maps) return StartNothing(order);
  arrivals_.views().Run(order.tier, order.frame, [this, order, place] {
    if (order.kind == core::FillKind::kUndefined) {
      arrivals_.Map(order.task, place);
    } else {
      Post({order, place});
    }
  });
  return false;
}

/// Waits for a view that has not left the frame yet, and for nothing else.
bool PageFills::StartNothing(const core::StartFill& order) {
  if (arrivals_.views().IsLeft(order.tier, order.frame)) return true;
  arrivals_.views().Run(
      order.tier, order.frame, [this, task = order.task] { arrivals_.Report(task); });
  return false;
}

void PageFills::Post(FillJob job) {
  const Segment::Parts& parts = job.place.segment->parts();
  const bool from_file = job.order.kind == core::FillKind::kFile;
  const bool direct = parts.read_only && parts.file != nullptr && parts.file->direct();
  if (from_file) job.begun = parts_.meters->OfFiles().Begin();
  if (from_file && direct) return ReadHome(std::move(job));
  parts_.workers->Submit([this, job = std::move(job)]() mutable { Run(std::move(job)); });
}

/// Many reads are under way at a time; workers verify what has come.
void PageFills::ReadHome(FillJob job) {
  const PageInFrame& place = job.place;
  const Segment& segment = *place.segment;
  const std::uint64_t begin = segment.PageWithin(place.page) * segment.page_bytes();
  const std::span<std::byte> frame = parts_.tiers->memory(place.tier)->Frame(place.frame);
  const HomeFile& file = *segment.parts().file;
  file.StartRead(begin, frame, [this, job = std::move(job), begin, frame](bool read) mutable {
    parts_.workers->Submit([this, job = std::move(job), begin, frame, read]() mutable {
      if (!read) return Run(std::move(job));  // says why
      const absl::Status status = job.place.segment->parts().file->FinishRead(begin, frame);
      Finish(std::move(job), status);
    });
  });
}

void PageFills::Run(FillJob job) {
  const PageInFrame& place = job.place;
  MemoryTier& memory = *parts_.tiers->memory(place.tier);
  if (job.order.kind == core::FillKind::kZero) {
    memory.Fill(place.frame, 0, [this, job](const absl::Status& status) { Finish(job, status); });
    return;
  }
  // The core has files read and pages reproduced in the host's memory.
  Finish(job, FillPage(job.order.kind, *place.segment, place.page, memory.Frame(place.frame)));
}

void PageFills::MeterFile(const FillJob& job, const absl::Status& status) {
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

void PageFills::Finish(FillJob job, absl::Status status) {
  const PageInFrame& place = job.place;
  const core::FillKind kind = job.order.kind;
  if (kind == core::FillKind::kFile) MeterFile(job, status);
  if (status.ok()) return arrivals_.Arrive(job.order.task, place, job.order.map);
  const core::TaskNumber task = job.order.task;
  if (!MayPass(kind, status)) {
    return arrivals_.ReportFailure(task, core::FailureKind::kSourceLost, std::move(status));
  }
  if (++job.attempts < backoff_.attempts_max) {
    const auto pause = backoff_.PauseAfter(job.attempts);
    if (timer_.After(pause, [this, job] { Post(job); })) return;
  }
  arrivals_.ReportFailure(task, core::FailureKind::kTargetFailed, std::move(status));
}

}  // namespace sluice::engine
