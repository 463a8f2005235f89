#include "runtime/engine/control/core_thread.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "fmt/format.h"
#include "runtime/engine/data/sole_copies.h"
#include "runtime/engine/report/failure_text.h"

namespace sluice::engine {

// The loop and the messages; actions are in core_actions.cc.

CoreThread::CoreThread(Parts parts) : parts_(std::move(parts)), tasks_(parts_.stall_seconds) {}

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
    parts_.mailbox->PopAll(&batch, next_look_);
    for (Message& message : batch) {
      if (!std::holds_alternative<ReleaseNotice>(message)) FeedReleases();
      std::visit([this](auto& each) { On(each); }, message);
    }
    FeedReleases();
    TellWaits();
    ReportStalled();
    ReportForgotten();
  }
  for (const std::string& line : repeated_.Take()) parts_.logger->Warning(line);
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

/// Tickets that wait for something else than before.
void CoreThread::TellWaits() {
  parts_.core->Waits(&waits_);
  for (const core::TicketWait& wait : waits_) {
    TicketBook::Entry* entry = tickets_.Find(wait.ticket);
    if (entry == nullptr || entry->waits_for == wait.waits_for) continue;
    entry->waits_for = wait.waits_for;
    entry->ticket->NoteWait(wait.waits_for);
  }
}

void CoreThread::ReportStalled() {
  const Clock::time_point now = Clock::now();
  if (next_look_ == Clock::time_point::max()) {
    next_look_ = NextLook(now);
    return;
  }
  if (now < next_look_) return;
  next_look_ = NextLook(now);
  ReportStalledTickets(now);
  for (const TaskBook::RunningTask& task : tasks_.TakeStalled(now)) {
    TransferStalledEvent event;
    event.tensor = owners_.Owner(task.page)->NameAt(task.page);
    event.target = parts_.tiers->id(task.target);
    event.source = task.source == core::kNoTier ? event.target : parts_.tiers->id(task.source);
    event.seconds = std::chrono::duration<double>(now - task.begun).count();
    parts_.logger->Warning(fmt::format("a transfer of tensor '{}' from {} to {} takes {:.1f} s",
                                       event.tensor,
                                       ToString(event.source),
                                       ToString(event.target),
                                       event.seconds));
    parts_.health->NoteStalled(event);
    if (parts_.listener != nullptr) parts_.listener->OnTransferStalled(event);
  }
}

CoreThread::Clock::time_point CoreThread::NextLook(Clock::time_point now) const {
  const bool looks = tickets_.AnyWaits() && tasks_.limit() > Clock::duration::zero();
  return looks ? now + tasks_.limit() / 4 : tasks_.NextLook(now);
}

void CoreThread::ReportStalledTickets(Clock::time_point now) {
  const auto seconds_since = [now](Clock::time_point begin) {
    return std::chrono::duration<double>(now - begin).count();
  };
  if (tasks_.limit() <= Clock::duration::zero()) return;
  for (const TicketBook::Stall& stall : tickets_.TakeStalled(now, tasks_.limit(), tasks_.empty())) {
    const LeaseStalledEvent event{.op = stall.waits->ticket->op().identity().name,
                                  .tensor = stall.wanted->tensor->spec.name,
                                  .tier = stall.wanted->tier_id,
                                  .seconds = seconds_since(stall.waits->since),
                                  .held_tensor = stall.held->tensor->spec.name,
                                  .held_by = stall.holds->ticket->op().identity().name,
                                  .held_seconds = seconds_since(stall.holds->since)};
    parts_.logger->Warning(StallText(event));
    if (parts_.listener != nullptr) parts_.listener->OnLeaseStalled(event);
  }
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

void CoreThread::On(CreateRequest& request) {
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
  Feed(event);
}

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

void CoreThread::On(ReserveRequest& request) {
  const core::ReservationNumber number = next_reservation_++;
  const core::ReserveFrames event{number, request.tier, request.frames};
  reservations_.emplace(number, std::move(request));
  Feed(event);
}

void CoreThread::On(BudgetRequest& request) {
  const core::SetBudget event{request.tier, request.frames};
  const bool added = budgets_.emplace(request.tier, std::move(request)).second;
  SLUICE_CHECK(added, "one budget change of a tier at a time");
  Feed(event);
}

void CoreThread::On(EventRequest& request) {
  if (!stopping_) Feed(std::move(request.event));
}

void CoreThread::On(CallRequest& request) { std::move(request.call)(); }

void CoreThread::On(Completion& completion) {
  const TaskBook::RunningTask task = tasks_.End(completion.task);
  if (stopping_) return;  // the core is told of no completion after a stop
  if (!completion.failure) {
    NoteSuccess(task);
    Feed(core::TaskDone{completion.task});
    return;
  }
  NoteFailure(completion, task);
  Feed(core::TaskFailed{completion.task, *completion.failure});
}

void CoreThread::NoteSuccess(const TaskBook::RunningTask& task) {
  if (task.source < task.target) {
    faults_.ForgetAttempt(task.page);
  } else {
    faults_.ForgetPage(task.page);  // the page has bytes again
  }
  if (task.source >= task.target || faults_.OfTier(task.target).ok()) return;
  faults_.ForgetTier(task.target);
  const TierId tier = parts_.tiers->id(task.target);
  if (parts_.health->NoteTakesPages(tier)) {
    parts_.logger->Info(fmt::format("{} takes pages again", ToString(tier)));
  }
}

void CoreThread::NoteFailure(const Completion& completion, const TaskBook::RunningTask& task) {
  const std::string target = ToString(parts_.tiers->id(task.target));
  if (repeated_.IsFirst(target, completion.status)) {
    parts_.logger->Warning(fmt::format("a transfer of tensor '{}' to {} failed: {}",
                                       owners_.Owner(task.page)->NameAt(task.page),
                                       target,
                                       base::ToStd(completion.status.message())));
  }
  if (completion.failure == core::FailureKind::kSourceLost) {
    NoteLostSource(completion, task);
  } else if (task.source < task.target) {
    faults_.NoteTier(task.target, completion.status);  // the tier takes no page
  } else {
    faults_.NoteAttempt(task.page, {task.target, completion.status});
  }
}

void CoreThread::NoteLostSource(const Completion& completion, const TaskBook::RunningTask& task) {
  if (task.source == core::kNoTier) return NoteFailedRefill(completion.status, task);
  faults_.NotePage(task.page, {task.source, completion.status});
}

/// Notes both causes: that of the refill, and that of the loss before it. The latter may also be a
/// copy that could not be read, which then stays.
void CoreThread::NoteFailedRefill(const absl::Status& status, const TaskBook::RunningTask& task) {
  const auto both = [&](const absl::Status& before) {
    return fmt::format("{}; then {}", base::ToStd(before.message()), base::ToStd(status.message()));
  };
  const PageFault lost = faults_.OfPage(task.page);
  if (lost.tier == core::kNoTier) {
    faults_.NotePage(task.page, {core::kNoTier, status});
  } else {
    faults_.NotePage(task.page, {lost.tier, absl::DataLossError(both(lost.cause))});
  }
  const PageFault refused = faults_.AttemptOf(task.page);
  if (refused.cause.ok()) return;
  faults_.NoteAttempt(task.page, {refused.tier, absl::UnavailableError(both(refused.cause))});
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
  FailReplies();
}

void CoreThread::FailReplies() {
  const auto cancelled = [] { return absl::CancelledError("the runtime has shut down"); };
  for (auto& [segment, request] : creates_) request.reply.set_value(cancelled());
  for (auto& [number, request] : reservations_) request.reply.set_value(cancelled());
  for (auto& [tier, request] : budgets_) request.reply.set_value(cancelled());
  creates_.clear();
  reservations_.clear();
  budgets_.clear();
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
    for (core::Action& action : actions_) {
      std::visit([this](auto& each) { Perform(each); }, action);
    }
    parts_.mover->views().ShowDiscarded();
  }
  feeding_ = false;
  if (std::exchange(dump_wanted_, false)) parts_.log->Dump(*parts_.logger, "content was lost");
}

}  // namespace sluice::engine
