#include <utility>

#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/control/core_thread.h"
#include "runtime/engine/report/capacity_text.h"
#include "runtime/engine/report/failure_text.h"

namespace sluice::engine {

// Work of the core thread for each action of the core, and its warnings about dropped schedules.

void CoreThread::Perform(const core::StartCopy& action) {
  tasks_.Add(action.task, {action.page, action.source, action.target, Clock::now()});
  parts_.mover->Copy(action, owners_.Owner(action.page));
}

void CoreThread::Perform(const core::HastenCopy& action) { parts_.mover->Hasten(action); }

void CoreThread::Perform(const core::StartFill& action) {
  if (parts_.mover->Fill(action, owners_.Owner(action.page))) {
    waiting_.push_back(core::TaskDone{action.task});
    return;
  }
  tasks_.Add(action.task, {action.page, core::kNoTier, action.tier, Clock::now()});
}

void CoreThread::Perform(const core::StartMap& action) {
  tasks_.Add(action.task, {action.page, core::kNoTier, action.tier, Clock::now()});
  parts_.mover->Map(action, owners_.Owner(action.page));
}

void CoreThread::Perform(const core::DropFrame& action) {
  parts_.mover->Drop(action, owners_.Owner(action.page));
}

void CoreThread::Perform(core::GrantTicket& action) {
  TicketBook::Entry* entry = tickets_.Find(action.ticket);
  SLUICE_CHECK(entry != nullptr, "only a known ticket is granted");
  tickets_.Grant(entry, Clock::now());
  for (const LeaseDraft& access : entry->ticket->draft().accesses) {
    if (access.mode != AccessMode::kRead) parts_.table->MarkLive(*access.tensor, access.discards);
  }
  parts_.mover->Grant(entry->ticket, std::move(action.frames), owners_);
}

void CoreThread::Perform(const core::FailTicket& action) {
  TicketBook::Entry* entry = tickets_.Find(action.ticket);
  SLUICE_CHECK(entry != nullptr, "only a known ticket fails");
  const core::FrameIndex budget =
      action.tier < parts_.tiers->size() ? parts_.core->tier(action.tier).frames : 0;
  entry->ticket->Fail(TicketFailureStatus(action, *entry->ticket, *parts_.tiers, budget, faults_));
  tickets_.Erase(action.ticket);
}

void CoreThread::Perform(const core::LosePage& action) {
  PageFault fault = faults_.OfPage(action.page);
  if (fault.cause.ok()) fault = {action.tier, faults_.AttemptOf(action.page).cause};
  faults_.NotePage(action.page, fault);
  parts_.mover->views().Hide(owners_.Owner(action.page), action.page);
  owners_.Owner(action.page)
      ->ForEachTensorIn(action.page, [&](const TensorInfo& tensor, ByteRange range) {
        const PageLostEvent event{tensor.spec.name, range, fault.cause};
        if (repeated_.IsFirst("content is lost", fault.cause)) {
          parts_.logger->Error(fmt::format("{} bytes at offset {} of tensor '{}' are lost: {}",
                                           range.bytes,
                                           range.offset,
                                           tensor.spec.name,
                                           base::ToStd(fault.cause.message())));
        }
        parts_.health->NoteLostPage(event);
        if (parts_.listener != nullptr) parts_.listener->OnPageLost(event);
      });
  dump_wanted_ = true;
}

void CoreThread::Perform(const core::FenceTier& action) {
  const TierFencedEvent event{parts_.tiers->id(action.tier), faults_.OfTier(action.tier)};
  if (repeated_.IsFirst(ToString(event.tier), event.cause)) {
    parts_.logger->Error(fmt::format(
        "{} takes no pages: {}", ToString(event.tier), base::ToStd(event.cause.message())));
  }
  parts_.health->NoteFenced(event);
  if (parts_.listener != nullptr) parts_.listener->OnTierFenced(event);
}

void CoreThread::Perform(const core::SegmentCreated& action) {
  const auto found = creates_.find(action.segment);
  owners_.Add(found->second.segment);
  found->second.reply.set_value(absl::OkStatus());
  creates_.erase(found);
}

void CoreThread::Perform(const core::SegmentRefused& action) {
  const auto found = creates_.find(action.segment);
  found->second.reply.set_value(
      NoCapacityStatus(action, found->second.segment->parts(), *parts_.tiers));
  creates_.erase(found);
}

void CoreThread::Perform(const core::PagesFreed& action) {
  const PageRun run{action.first_page, action.pages};
  for (PageIndex page = run.first; page < run.first + run.pages; ++page) faults_.ForgetPage(page);
  parts_.mover->Retire(owners_.Remove(run), run);
  parts_.table->OnPagesFreed(run);
}

void CoreThread::Perform(core::FramesReserved& action) {
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

void CoreThread::Perform(const core::ReservationRefused& action) {
  const auto found = reservations_.find(action.reservation);
  const ReserveRequest& request = found->second;
  found->second.reply.set_value(absl::ResourceExhaustedError(
      fmt::format("{} cannot be reserved in {}: {}",
                  ToString(parts_.tiers->PagesToBytes(request.frames)),
                  ToString(parts_.tiers->id(request.tier)),
                  UseText(request.tier, parts_.core->tier(request.tier), *parts_.tiers))));
  reservations_.erase(found);
}

void CoreThread::Perform(const core::BudgetSet& action) {
  const auto found = budgets_.find(action.tier);
  parts_.mover->views().LeaveFrames(action.tier, action.frames);
  parts_.mover->Resize(action.tier,
                       action.frames,
                       [reply = std::move(found->second.reply)](absl::Status status) mutable {
                         reply.set_value(std::move(status));
                       });
  budgets_.erase(found);
}

void CoreThread::Perform(const core::BudgetRefused& action) {
  const auto found = budgets_.find(action.tier);
  found->second.reply.set_value(absl::ResourceExhaustedError(
      fmt::format("the budget of {} cannot be {}, as {} are needed now: {}",
                  ToString(parts_.tiers->id(action.tier)),
                  ToString(parts_.tiers->PagesToBytes(found->second.frames)),
                  ToString(parts_.tiers->PagesToBytes(action.frames_least)),
                  UseText(action.tier, parts_.core->tier(action.tier), *parts_.tiers))));
  budgets_.erase(found);
}

/// Warns once about each cause for which the core keeps no schedule. Pages then come only when ops
/// ask for them.
void CoreThread::ReportForgotten() {
  const core::CoreCounters& counters = parts_.core->counters();
  if (counters.schedules_dropped > 0 && !std::exchange(told_dropped_, true)) {
    parts_.logger->Warning(
        "the schedule of an iteration key was dropped for a newer one: there are more keys than "
        "schedules_max, or longer schedules than recorded_accesses_max (said once)");
  }
  if (counters.iterations_too_long > 0 && !std::exchange(told_too_long_, true)) {
    parts_.logger->Warning(
        "an iteration is longer than recorded_accesses_max: it is not recorded, and nothing is "
        "planned for it (said once)");
  }
}

}  // namespace sluice::engine
