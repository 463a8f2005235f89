#include <utility>
#include <variant>

#include "base/check.h"
#include "runtime/engine/control/core_thread.h"
#include "runtime/engine/report/failure_text.h"

namespace sluice::engine {

// Work of the core thread for each action of the core, and its warnings about dropped schedules.

void CoreThread::CarryOut(core::Action* action) {
  std::visit(
      [this](auto& each) {
        if constexpr (requires { requests_.Answer(each); }) {
          requests_.Answer(each);
        } else {
          Perform(each);
        }
      },
      *action);
}

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
  entry->ticket->Fail(TicketFailureStatus(
      action, *entry->ticket, {*parts_.tiers, faults_.log(), budget, parts_.custom_policy}));
  tickets_.Erase(action.ticket);
}

void CoreThread::Perform(const core::LosePage& action) {
  parts_.mover->views().Hide(owners_.Owner(action.page), action.page);
  faults_.ReportLost(action);
  dump_wanted_ = true;
}

void CoreThread::Perform(const core::FenceTier& action) { faults_.ReportFenced(action); }

void CoreThread::Perform(const core::PagesFreed& action) {
  const PageRun run{action.first_page, action.pages};
  faults_.ForgetPages(run);
  parts_.mover->Retire(owners_.Remove(run), run);
  parts_.table->OnPagesFreed(run);
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
