#include "runtime/engine/mover/data_mover.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/control/ticket_state.h"
#include "runtime/engine/report/profiler_ranges.h"

namespace sluice::engine {

DataMover::DataMover(Parts parts)
    : parts_(std::move(parts)),
      arrivals_(parts_),
      copies_(parts_, arrivals_),
      fills_(parts_, arrivals_) {}

void DataMover::Map(const core::StartMap& order, const SegmentPtr& segment) {
  if (order.placed && segment->Shows(order.tier)) return arrivals_.Report(order.task);
  arrivals_.Map(order.task, PageInFrame{segment, order.page, order.tier, order.frame});
}

void DataMover::Drop(const core::DropFrame& order, const SegmentPtr& segment) {
  const ProfilerRange range =
      ProfilerRange::Begin(ProfilerCategory::kEvict, [&] { return segment->NameAt(order.page); });
  DropNow(order, segment);
  range.End();
}

void DataMover::DropNow(const core::DropFrame& order, const SegmentPtr& segment) {
  if (parts_.tiers->is_store(order.tier)) {
    arrivals_.views().LeaveSlot(segment, order.page, FrameOf(order.tier, order.frame));
    arrivals_.views().Run(
        order.tier, order.frame, [this, order] { parts_.tiers->store()->Forget(order.frame); });
  } else if (order.mapped && !segment->Shows(order.tier)) {
    arrivals_.Leave({segment, order.page, order.tier, order.frame});
  }
}

void DataMover::WhenLeft(core::TierIndex tier,
                         std::span<const core::FrameIndex> frames,
                         PageViews::Job job) {
  arrivals_.views().RunAll(tier, frames, std::move(job));
}

void DataMover::Grant(const std::shared_ptr<internal::TicketState>& ticket,
                      std::vector<core::FrameIndex> frames,
                      const PageOwners& owners) {
  if (!arrivals_.views().used()) return ticket->Grant(std::move(frames));
  const std::vector<core::PageRequest>& requests = ticket->draft().requests;
  bool shown = true;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const core::PageRequest& request = requests[i];
    const SegmentPtr& segment = owners.Owner(request.page);
    const bool at_address = request.map && segment->Shows(request.tier);
    if (!segment->readable() || (!at_address && !core::IsWrite(request.mode))) continue;
    shown =
        arrivals_.views().Show(segment, request.page, FrameOf(request.tier, frames[i])) && shown;
  }
  if (shown) return ticket->Grant(std::move(frames));
  std::vector<SegmentPtr> segments;
  for (const core::PageRequest& request : requests) segments.push_back(owners.Owner(request.page));
  arrivals_.views().RunLast(
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
    if (!at_address || arrivals_.views().Shows(request.page, FrameOf(request.tier, frames[i])))
      continue;
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
    done(arrivals_.mapper().Resize(tier, frames));
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
  arrivals_.Forget(run);
  if (segment != nullptr) arrivals_.views().Forget(segment, run);
  parts_.mapper->Post([segment = std::move(segment)]() mutable { segment.reset(); });
}

}  // namespace sluice::engine
