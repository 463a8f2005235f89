#include "runtime/engine/mover/page_arrivals.h"

#include <utility>

namespace sluice::engine {

PageArrivals::PageArrivals(const MoverParts& parts)
    : parts_(parts),
      mapper_({.tiers = parts.tiers, .logger = parts.logger}),
      views_({.tiers = parts.tiers,
              .mapper = parts.mapper,
              .logger = parts.logger,
              .find_newest = parts.find_newest}) {}

void PageArrivals::Report(core::TaskNumber task) { parts_.mailbox->Post(Completion{.task = task}); }

void PageArrivals::ReportFailure(core::TaskNumber task,
                                 core::FailureKind kind,
                                 absl::Status cause) {
  parts_.mailbox->Post(Completion{task, kind, std::move(cause)});
}

void PageArrivals::TakeFrame(core::TierIndex tier,
                             core::FrameIndex frame,
                             PageIndex page,
                             bool fills) {
  if (parts_.tiers->is_store(tier)) return;
  views_.TakeFrame(tier, frame, page, fills);
  mapper_.Displace(tier, frame, page, [this](PageInFrame place) { PostUnmap(std::move(place)); });
}

void PageArrivals::PostUnmap(PageInFrame place) {
  parts_.mapper->Post([this, place = std::move(place)] { mapper_.Unmap(place); });
}

void PageArrivals::Arrive(core::TaskNumber task, const PageInFrame& place, bool map) {
  views_.Arrive(place.segment, place.page, FrameOf(place.tier, place.frame));
  if (map) {
    Map(task, place);
  } else {
    Report(task);
  }
}

void PageArrivals::Map(core::TaskNumber task, const PageInFrame& place) {
  const auto end = [this, task](absl::Status status) {
    if (status.ok()) return Report(task);
    ReportFailure(task, core::FailureKind::kTargetFailed, std::move(status));
  };
  if (place.segment->Shows(place.tier)) {
    return views_.Map(place.segment, place.page, FrameOf(place.tier, place.frame), end);
  }
  if (mapper_.Reuse(place)) return Report(task);
  parts_.mapper->Post([this, end, place] { end(mapper_.Map(place)); });
}

void PageArrivals::Leave(const PageInFrame& place) {
  mapper_.Leave(place, [this](PageInFrame left) { PostUnmap(std::move(left)); });
}

void PageArrivals::Forget(const PageRun& run) {
  mapper_.Forget(run, [this](PageInFrame place) { PostUnmap(std::move(place)); });
}

}  // namespace sluice::engine
