#include "runtime/engine/control/request_book.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "runtime/engine/report/capacity_text.h"

namespace sluice::engine {

core::CreateSegment RequestBook::Add(CreateRequest request) {
  const Segment::Parts& parts = request.segment->parts();
  core::CreateSegment event;
  event.segment = parts.index;
  event.first_page = parts.first_page;
  event.pages = parts.pages;
  event.lowest = parts.lowest;
  event.kind = request.segment->kind();
  event.file_home = parts.has_home();
  event.reproducible = request.segment->reproducible();
  event.read_only = parts.read_only;
  creates_.emplace(parts.index, std::move(request));
  return event;
}

core::ReserveFrames RequestBook::Add(ReserveRequest request) {
  const core::ReservationNumber number = next_reservation_++;
  const core::ReserveFrames event{number, request.tier, request.frames};
  reservations_.emplace(number, std::move(request));
  return event;
}

core::SetBudget RequestBook::Add(BudgetRequest request) {
  const core::SetBudget event{request.tier, request.frames};
  const bool added = budgets_.emplace(request.tier, std::move(request)).second;
  SLUICE_CHECK(added, "one budget change of a tier at a time");
  return event;
}

void RequestBook::Answer(const core::SegmentCreated& action) {
  const auto found = creates_.find(action.segment);
  parts_.owners->Add(found->second.segment);
  found->second.reply.set_value(absl::OkStatus());
  creates_.erase(found);
}

void RequestBook::Answer(const core::SegmentRefused& action) {
  const auto found = creates_.find(action.segment);
  found->second.reply.set_value(
      NoCapacityStatus(action, found->second.segment->parts(), *parts_.tiers));
  creates_.erase(found);
}

void RequestBook::Answer(core::FramesReserved& action) {
  const auto found = reservations_.find(action.reservation);
  for (const core::FrameIndex frame : action.frames) {
    parts_.mover->TakeFrame(found->second.tier, frame, core::kNoPage);
  }
  FrameGrant grant{action.reservation, std::move(action.frames)};
  const std::vector<core::FrameIndex> frames = grant.frames;
  parts_.mover->WhenLeft(
      found->second.tier,
      frames,
      [reply = std::move(found->second.reply), grant = std::move(grant)]() mutable {
        reply.set_value(std::move(grant));
      });
  reservations_.erase(found);
}

void RequestBook::Answer(const core::ReservationRefused& action) {
  const auto found = reservations_.find(action.reservation);
  const ReserveRequest& request = found->second;
  found->second.reply.set_value(absl::ResourceExhaustedError(
      fmt::format("{} cannot be reserved in {}: {}",
                  ToString(parts_.tiers->PagesToBytes(request.frames)),
                  ToString(parts_.tiers->id(request.tier)),
                  UseText(request.tier, parts_.core->tier(request.tier), *parts_.tiers))));
  reservations_.erase(found);
}

void RequestBook::Answer(const core::BudgetSet& action) {
  const auto found = budgets_.find(action.tier);
  parts_.mover->views().LeaveFrames(action.tier, action.frames);
  parts_.mover->Resize(action.tier,
                       action.frames,
                       [reply = std::move(found->second.reply)](absl::Status status) mutable {
                         reply.set_value(std::move(status));
                       });
  budgets_.erase(found);
}

void RequestBook::Answer(const core::BudgetRefused& action) {
  const auto found = budgets_.find(action.tier);
  found->second.reply.set_value(absl::ResourceExhaustedError(
      fmt::format("the budget of {} cannot be {}, as {} are needed now: {}",
                  ToString(parts_.tiers->id(action.tier)),
                  ToString(parts_.tiers->PagesToBytes(found->second.frames)),
                  ToString(parts_.tiers->PagesToBytes(action.frames_least)),
                  UseText(action.tier, parts_.core->tier(action.tier), *parts_.tiers))));
  budgets_.erase(found);
}

void RequestBook::CancelAll() {
  const auto cancelled = [] { return absl::CancelledError("the runtime has shut down"); };
  for (auto& [segment, request] : creates_) request.reply.set_value(cancelled());
  for (auto& [number, request] : reservations_) request.reply.set_value(cancelled());
  for (auto& [tier, request] : budgets_) request.reply.set_value(cancelled());
  creates_.clear();
  reservations_.clear();
  budgets_.clear();
}

}  // namespace sluice::engine
