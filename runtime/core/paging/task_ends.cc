#include "runtime/core/paging/task_ends.h"

#include <utility>

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

/// Attempts in a row to bring a page to a tier, after which those who wait for it are told.
constexpr std::uint8_t kBringFailuresMax = 3;

}  // namespace

/// Takes a task that has ended off the list.
Task TaskEnds::TakeTask(TaskNumber number) {
  const auto found = m_.tasks.find(number);
  SLUICE_CHECK(found != m_.tasks.end(), "a task is reported once");
  const Task task = found->second;
  m_.tasks.erase(found);
  m_.hastening.NoteEnd(number, task);
  --m_.page(task.page).tasks;
  if (IsRefill(task)) --m_.refills_in_flight;
  return task;
}

void TaskEnds::On(const TaskDone& event) {
  const Task task = TakeTask(event.task);
  ++m_.tasks_since_progress;
  switch (task.kind) {
    case TaskKind::kCopy:
      return FinishCopy(task);
    case TaskKind::kFill:
      return FinishFill(task);
    case TaskKind::kMap:
      return FinishMap(task);
  }
}

void TaskEnds::FinishMap(const Task& task) {
  PageCopy& copy = m_.page(task.page).copies[task.target];
  copy.mapping = false;
  copy.mapped = true;
  m_.page(task.page).bring_failures[task.target] = 0;
  m_.tickets.Recheck(task.page);
  m_.goals.Reconsider(task.page);
  m_.facts.Update(task.page);
}

void TaskEnds::FinishFill(const Task& task) {
  m_.page(task.page).copies[task.target].mapped = task.map;
  Arrive(
      task.page, task, task.fill == FillKind::kUndefined ? CopyState::kPlaced : CopyState::kValid);
}

/// Takes a copy that has ended, well or not, off what is in flight.
void TaskEnds::EndCopy(const Task& task) {
  --m_.page(task.page).copies[task.source].readers;
  --m_.link(task.source, task.target).in_flight[DirectionIndex(task.source, task.target)];
  if (task.evict) --m_.tiers[task.source].leaving;
  if (task.purpose == Purpose::kClean) --m_.tiers[task.source].cleaning;
}

void TaskEnds::FinishCopy(const Task& task) {
  Page& p = m_.page(task.page);
  PageCopy& source = p.copies[task.source];
  EndCopy(task);
  p.copies[task.target].mapped = task.map;
  p.copies[task.target].state = CopyState::kValid;
  if (task.target > task.source) m_.fences.NoteWrite(task.target);
  if (task.target == m_.last_tier()) m_.frames.DropStale(task.page);
  const bool keeps = task.target < task.source && task.source != m_.last_tier();
  if (keeps && m_.plan_follower.FollowsPlan()) m_.tiers[task.source].brought_up.insert(task.page);
  const bool passed = source.transit && !m_.facts.PinnedAt(p, task.source);
  if (source.readers == 0 && !source.mapping && (source.leaving || passed)) {
    LeaveSource(task.page, task.source);
  }
  Arrive(task.page, task, CopyState::kValid);
}

/// Leaves the source of a copy. A page that is now in a doomed slot stays, as after a write that
/// failed. It is written elsewhere when it has to leave again.
void TaskEnds::LeaveSource(PageIndex index, TierIndex source) {
  Page& p = m_.page(index);
  if (m_.facts.MayDrop(p, source)) {
    m_.frames.DropCopy(index, source);
  } else {
    p.copies[source].leaving = false;
  }
}

void TaskEnds::Arrive(PageIndex index, const Task& task, CopyState state) {
  Page& p = m_.page(index);
  p.copies[task.target].state = state;
  p.copies[task.target].under_way = false;
  if (p.write_pinned) m_.copies.PinForWrite(index, task.target);
  const bool replaced = std::exchange(p.refused, false) && IsRefill(task);
  if (replaced && p.copies[m_.last_tier()].state == CopyState::kValid)
    LoseSource(index, m_.last_tier());
  p.bring_failures[task.target] = 0;
  if (p.copies[task.target].transit) m_.transits.push_back(index);
  if (p.coming_tier == task.target) {
    p.prefetched_tier = task.target;
    p.coming_tier = kNoTier;
  }
  m_.tickets.Recheck(index);
  m_.goals.Reconsider(index);
  m_.facts.Update(index);
  m_.tickets.ReleaseLate(index);
}

void TaskEnds::On(const TaskFailed& event) {
  const Task task = TakeTask(event.task);
  Page& p = m_.page(task.page);
  AbandonTarget(task);
  const bool lost = event.kind == FailureKind::kSourceLost;
  if (p.write_pinned) {
    LoseWritten(task.page, task.target);
  } else if (MakesAgain(task, event.kind)) {
    p.refused = true;
  } else if (IsRefill(task) && lost && !KeepsRefused(p)) {
    LoseContent(task.page, task.target);
  } else if (task.kind == TaskKind::kCopy &&
             (lost || p.copies[task.source].state != CopyState::kValid)) {
    LoseSource(task.page, task.source);
  } else if (task.kind == TaskKind::kCopy && task.target > task.source) {
    m_.fences.NoteWriteFailure(task.target);
    const bool wanted = !task.evict && task.purpose != Purpose::kClean;
    if (wanted) NoteBringFailure(task);
  } else {
    NoteBringFailure(task);
  }
  m_.tickets.Recheck(task.page);
  m_.goals.Reconsider(task.page);
  m_.facts.Update(task.page);
  m_.tickets.ReleaseLate(task.page);
}

/// Whether a page whose copy in the last tier cannot be read is to be refilled. The copy stays
/// valid meanwhile, because the refill may fail too.
bool TaskEnds::MakesAgain(const Task& task, FailureKind kind) {
  const Page& p = m_.page(task.page);
  const bool valid = task.kind == TaskKind::kCopy && task.source == m_.last_tier() &&
                     p.copies[task.source].state == CopyState::kValid;
  return valid && kind == FailureKind::kSourceRefused && (p.file_home || p.reproducible);
}

/// Ends the refill of a page whose copy in the last tier could not be read. Returns whether that
/// copy is still there: it is read again then.
bool TaskEnds::KeepsRefused(Page& p) {
  p.refused = false;
  return p.copies[m_.last_tier()].state == CopyState::kValid;
}

void TaskEnds::AbandonTarget(const Task& task) {
  Page& p = m_.page(task.page);
  PageCopy& target = p.copies[task.target];
  if (p.coming_tier != kNoTier) m_.goals.EndPrefetch(p, &m_.counters.prefetch_wasted);
  if (task.map || task.kind == TaskKind::kMap)
    m_.frames.SetMappedTo(task.page, task.target, kNoFrame);
  if (task.kind == TaskKind::kMap) {
    target.mapping = false;
    return;
  }
  if (target.transit) m_.frames.EndTransit(target, task.target);
  if (m_.facts.PinnedAt(p, task.target)) {
    // The page's lease keeps the frame, without content.
    target.state = CopyState::kPlaced;
    target.under_way = target.mapped = false;
  } else {
    m_.frames.Give(task.target, target.frame, task.page);
    target = PageCopy{};
  }
  if (task.target == m_.last_tier()) m_.copies.RestoreDoomed(task.page);
  m_.frames.DropHeld(task.page);
  if (task.kind == TaskKind::kFill) return;
  EndCopy(task);
  p.copies[task.source].leaving = false;
}

void TaskEnds::LoseSource(PageIndex index, TierIndex source) {
  Page& p = m_.page(index);
  PageCopy& copy = p.copies[source];
  if (copy.state == CopyState::kValid && !m_.facts.PinnedAt(p, source)) {
    if (copy.readers == 0 && !copy.mapping) {
      m_.frames.DropCopy(index, source);
    } else {
      copy.state = CopyState::kPlaced;  // another task uses the frame: it stays, without content
    }
  }
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    if (p.copies[t].state == CopyState::kValid) return;
  }
  for (const auto& [number, task] : m_.tasks) {
    if (task.page == index && BringsContent(task)) return;
  }
  if (!p.file_home && !p.reproducible) LoseContent(index, source);
}

void TaskEnds::LoseContent(PageIndex index, TierIndex tier) {
  Page& p = m_.page(index);
  if (p.written()) --m_.tiers[p.lowest].written;
  p.content = false;
  if (Dies(p)) return;  // a discard has killed what is lost
  m_.frames.DropStale(index);
  p.lost = true;
  ++m_.counters.pages_lost;
  m_.Emit(LosePage{index, tier});
  m_.goals.Remove(index);
  FailWaiting(index, TicketFailure::kPageLost, tier);
}

/// Fails every ticket that waits for the page's content.
void TaskEnds::FailWaiting(PageIndex index, TicketFailure reason, TierIndex tier) {
  std::vector<TicketNumber> numbers;
  for (const Need* need : m_.page(index).queue) {
    if (need->ticket->kind != TicketKind::kAcquire) break;  // later tickets read zeros
    const bool waits = !need->ticket->granted;
    const bool reads = need->request.mode != PageMode::kOverwrite;
    if (waits && (reads || reason != TicketFailure::kPageLost)) {
      numbers.push_back(need->ticket->number);
    }
  }
  for (TicketNumber number : numbers) {
    m_.tickets.FailTicketWith(*m_.live_tickets.at(number), FailTicket{number, reason, index, tier});
  }
}

/// Failures count per page. A page that cannot be brought fails its waiters, however well others
/// come.
void TaskEnds::NoteBringFailure(const Task& task) {
  std::uint8_t& failures = m_.page(task.page).bring_failures[task.target];
  if (++failures < kBringFailuresMax) return;
  failures = 0;
  m_.goals.Remove(task.page);
  m_.page(task.page).hint_tier = kNoTier;
  m_.page(task.page).given_up = true;
  FailWaiting(task.page, TicketFailure::kTierFull, task.target);
}

void TaskEnds::On(const TaskUnderWay& event) {
  const auto found = m_.tasks.find(event.task);
  if (found == m_.tasks.end()) return;
  const Task& task = found->second;
  if (!BringsContent(task)) return;
  PageCopy& copy = m_.page(task.page).copies[task.target];
  copy.under_way = true;
  copy.mapped = task.map;
  m_.tickets.Recheck(task.page);
}

/// The page did not arrive in `tier`, where its lease may have written: neither what was written
/// nor the bytes of before are its content.
void TaskEnds::LoseWritten(PageIndex index, TierIndex tier) {
  m_.copies.PinForWrite(index, tier);
  m_.tickets.ReleaseLate(index);
  Page& p = m_.page(index);
  if (!p.exists || !p.content) return;  // a discard that waited for the lease came
  p.copies[tier].state = CopyState::kPlaced;
  LoseContent(index, tier);
}

}  // namespace sluice::core
