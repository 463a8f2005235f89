#include "runtime/engine/control/core_thread.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "fmt/format.h"
#include "runtime/engine/data/sole_copies.h"

namespace sluice::engine {

// The loop and the messages; actions are in core_actions.cc.

CoreThread::CoreThread(Parts parts)
    : parts_(std::move(parts)),
      tasks_(parts_.stall_seconds),
      stalls_({.tickets = &tickets_,
               .tasks = &tasks_,
               .owners = &owners_,
               .tiers = parts_.tiers,
               .logger = parts_.logger,
               .health = parts_.health,
               .listener = parts_.listener}),
      faults_({.owners = &owners_,
               .tiers = parts_.tiers,
               .logger = parts_.logger,
               .health = parts_.health,
               .listener = parts_.listener}),
      requests_({.core = parts_.core.get(),
                 .tiers = parts_.tiers,
                 .mover = parts_.mover,
                 .owners = &owners_}) {}

absl::Status CoreThread::Start() {
  SLUICE_ASSIGN_OR_RETURN(thread_, base::StartThread([this] { Run(); }));
  return absl::OkStatus();
}

CoreSnapshot CoreThread::Snapshot() const {
  CoreSnapshot snapshot;
  snapshot.counters = parts_.core->counters();
  for (core::TierIndex tier = 0; tier < parts_.tiers->size(); ++tier) {
    snapshot.tiers.push_back(parts_.core->tier(tier));
  }
  if (parts_.planner != nullptr) snapshot.plans = parts_.planner->stats();
  return snapshot;
}

void CoreThread::DumpHistory(void* self, const char* message) {
  auto* thread = static_cast<CoreThread*>(self);
  thread->parts_.log->Dump(*thread->parts_.logger, message);
}

void CoreThread::Run() {
  base::SetUpThread("sluice-core", parts_.cpus, base::ThreadPriority::kPrompt);
  base::SetCheckObserver(&CoreThread::DumpHistory, this);
  AnnounceFallbacks();
  std::vector<Message> batch;
  while (!stopping_ || !tasks_.empty()) {
    batch.clear();
    parts_.mailbox->PopAll(&batch, stalls_.next_look());
    for (Message& message : batch) {
      if (!std::holds_alternative<ReleaseNotice>(message)) FeedReleases();
      std::visit([this](auto& each) { On(each); }, message);
    }
    FeedReleases();
    tickets_.TellWaits(*parts_.core);
    stalls_.Report(Clock::now());
    ReportForgotten();
  }
  faults_.ReportRepeated();
  base::SetCheckObserver(nullptr, nullptr);
  parts_.mailbox->Close();
}

void CoreThread::AnnounceFallbacks() {
  for (const FallbackEvent& fallback : parts_.fallbacks) Announce(fallback);
}

void CoreThread::Announce(const FallbackEvent& fallback) {
  parts_.logger->Warning(fmt::format(
      "{} is not in use ({}); {} instead", fallback.what, fallback.reason, fallback.chosen));
  if (parts_.listener != nullptr) parts_.listener->OnFallback(fallback);
}

void CoreThread::On(AcquireRequest& request) {
  if (const LeaseDraft* gone = owners_.FirstUnusable(request.ticket->draft())) {
    request.ticket->Fail(
        absl::InvalidArgumentError(fmt::format("tensor '{}' was freed", gone->tensor->spec.name)));
    return;
  }
  tickets_.Add(request.ticket, Clock::now());
  const std::shared_ptr<internal::TicketState> ticket = request.ticket;
  Feed(std::move(request.event));
  // The ticket's own notice may have come before its request.
  if (ticket->takes_under_way()) Feed(core::GrantUnderWay{ticket->number()});
}

void CoreThread::On(CreateRequest& request) { Feed(requests_.Add(std::move(request))); }

void CoreThread::On(FreeRequest& request) {
  for (const PageRun& run : request.runs) {
    SLUICE_CHECK(owners_.Usable(request.segment, run), "a page is freed once");
    owners_.MarkDying(run);
    Feed(core::FreePages{run.first, run.pages});
  }
}

void CoreThread::On(DiscardRequest& request) {
  for (const PageRun& run : request.runs) {
    // Another thread has freed the tensor meanwhile: the bytes are dead anyway.
    if (!owners_.Usable(request.segment, run)) continue;
    parts_.mover->views().NoteDiscard(owners_.Owner(run.first), run);
    Feed(core::DiscardPages{run.first, run.pages});
  }
}

void CoreThread::On(PrefetchRequest& request) {
  if (owners_.FirstUnusable(request.draft) != nullptr) return;
  Feed(core::PrefetchPages{std::move(request.draft.requests), request.ops_ahead});
}

void CoreThread::On(ReserveRequest& request) { Feed(requests_.Add(std::move(request))); }

void CoreThread::On(BudgetRequest& request) { Feed(requests_.Add(std::move(request))); }

void CoreThread::On(EventRequest& request) {
  if (!stopping_) Feed(std::move(request.event));
}

void CoreThread::On(CallRequest& request) { std::move(request.call)(); }

void CoreThread::On(Completion& completion) {
  const TaskBook::RunningTask task = tasks_.End(completion.task);
  if (stopping_) return;  // the core is told of no completion after a stop
  if (!completion.failure) {
    faults_.NoteSuccess(task);
    Feed(core::TaskDone{completion.task});
    return;
  }
  faults_.NoteFailure(completion, task);
  Feed(core::TaskFailed{completion.task, *completion.failure});
}

/// Gathers leases of one ticket that come back together into one event. Tickets that wait for their
/// pages then get on after one round of decisions, not one for each lease.
void CoreThread::On(ReleaseNotice& notice) {
  if (stopping_) return;
  if (releases_.ticket != notice.ticket) FeedReleases();
  releases_.ticket = notice.ticket;
  tickets_.Release(notice, &releases_.pages);
}

void CoreThread::FeedReleases() {
  if (!releases_.pages.empty()) Feed(std::exchange(releases_, {}));
}

void CoreThread::On(CancelNotice& notice) {
  const TicketBook::Entry* entry = tickets_.Find(notice.ticket);
  if (stopping_ || entry == nullptr) return;
  if (entry->granted) {
    Feed(tickets_.ReleaseAll(notice.ticket));
  } else {
    Feed(core::Cancel{notice.ticket});
  }
}

void CoreThread::On(ReleaseFramesNotice& notice) {
  if (!stopping_) Feed(core::ReleaseFrames{notice.reservation});
}

void CoreThread::On(DriveFencedNotice& notice) {
  if (stopping_) return;
  const std::vector<PageIndex> only = parts_.core->PagesOnlyIn(notice.drive.slots);
  const DriveFencedEvent event{
      notice.drive.directory, notice.drive.cause, SoleCopiesIn(owners_, only)};
  parts_.logger->Error(fmt::format("drive {} takes no pages any more, {} are on it ({}): {}",
                                   event.directory,
                                   notice.drive.slots.size(),
                                   Describe(event.sole_copies),
                                   base::ToStd(event.cause.message())));
  parts_.health->NoteFenced(event);
  if (parts_.listener != nullptr) parts_.listener->OnDriveFenced(event);
  Feed(core::AbandonCopies{std::move(notice.drive.slots)});
}

void CoreThread::On(PlanNotice& notice) {
  parts_.planner->Note(notice);
  if (!stopping_) Feed(std::move(notice.event));
}

void CoreThread::On(StopNotice&) {
  stopping_ = true;
  tickets_.ForEach([this](const TicketBook::Entry& entry) {
    if (entry.ticket->Revoke()) NameLeakedLeases(entry);
  });
  tickets_.Clear();
  requests_.CancelAll();
}

void CoreThread::NameLeakedLeases(const TicketBook::Entry& entry) {
  const internal::TicketState& ticket = *entry.ticket;
  for (std::size_t i = 0; i < entry.released.size(); ++i) {
    if (entry.released[i]) continue;
    parts_.logger->Warning(
        fmt::format("a lease of tensor '{}' taken by op '{}' outlives its runtime",
                    ticket.draft().accesses[i].tensor->spec.name,
                    ticket.op().identity().name));
  }
}

void CoreThread::Feed(core::Event event) {
  waiting_.push_back(std::move(event));
  if (feeding_) return;
  feeding_ = true;
  while (!waiting_.empty()) {
    const core::Event& next = parts_.log->Add(std::move(waiting_.front()));
    waiting_.pop_front();
    actions_.clear();
    parts_.core->Handle(next, &actions_);
    parts_.log->Answer(actions_);
    if (parts_.planner != nullptr) parts_.planner->Observe(*parts_.core, next, actions_);
    for (core::Action& action : actions_) CarryOut(&action);
    parts_.mover->views().ShowDiscarded();
  }
  feeding_ = false;
  if (std::exchange(dump_wanted_, false)) parts_.log->Dump(*parts_.logger, "content was lost");
}

}  // namespace sluice::engine
