#include "runtime/engine/control/stall_reporter.h"

#include "fmt/format.h"
#include "runtime/engine/report/failure_text.h"

namespace sluice::engine {
namespace {

double SecondsBetween(StallReporter::Clock::time_point begin,
                      StallReporter::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

void StallReporter::Report(Clock::time_point now) {
  if (next_look_ == Clock::time_point::max()) {
    next_look_ = NextLook(now);
    return;
  }
  if (now < next_look_) return;
  next_look_ = NextLook(now);
  ReportTickets(now);
  ReportTasks(now);
}

StallReporter::Clock::time_point StallReporter::NextLook(Clock::time_point now) const {
  const Clock::duration limit = parts_.tasks->limit();
  const bool looks = parts_.tickets->AnyWaits() && limit > Clock::duration::zero();
  return looks ? now + limit / 4 : parts_.tasks->NextLook(now);
}

void StallReporter::ReportTickets(Clock::time_point now) {
  const Clock::duration limit = parts_.tasks->limit();
  if (limit <= Clock::duration::zero()) return;
  const bool idle = parts_.tasks->empty();
  for (const TicketBook::Stall& stall : parts_.tickets->TakeStalled(now, limit, idle)) {
    const LeaseStalledEvent event{.op = stall.waits->ticket->op().identity().name,
                                  .tensor = stall.wanted->tensor->spec.name,
                                  .tier = stall.wanted->tier_id,
                                  .seconds = SecondsBetween(stall.waits->since, now),
                                  .held_tensor = stall.held->tensor->spec.name,
                                  .held_by = stall.holds->ticket->op().identity().name,
                                  .held_seconds = SecondsBetween(stall.holds->since, now)};
    parts_.logger->Warning(StallText(event));
    if (parts_.listener != nullptr) parts_.listener->OnLeaseStalled(event);
  }
}

void StallReporter::ReportTasks(Clock::time_point now) {
  for (const TaskBook::RunningTask& task : parts_.tasks->TakeStalled(now)) {
    TransferStalledEvent event;
    event.tensor = parts_.owners->Owner(task.page)->NameAt(task.page);
    event.target = parts_.tiers->id(task.target);
    event.source = task.source == core::kNoTier ? event.target : parts_.tiers->id(task.source);
    event.seconds = SecondsBetween(task.begun, now);
    parts_.logger->Warning(fmt::format("a transfer of tensor '{}' from {} to {} takes {:.1f} s",
                                       event.tensor,
                                       ToString(event.source),
                                       ToString(event.target),
                                       event.seconds));
    parts_.health->NoteStalled(event);
    if (parts_.listener != nullptr) parts_.listener->OnTransferStalled(event);
  }
}

}  // namespace sluice::engine
