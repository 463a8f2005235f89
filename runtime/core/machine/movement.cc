#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/core/machine/core_impl.h"

namespace sluice::core {

/// Copies down in a row that a tier refused, after which it counts as taking no pages.
constexpr std::uint32_t kWriteFailuresMax = 3;
/// Attempts in a row to bring a page to a tier, after which those who wait for it are told.
constexpr std::uint8_t kBringFailuresMax = 3;

namespace {

bool Restores(FillKind fill) { return fill == FillKind::kFile || fill == FillKind::kReproduce; }

bool IsRefill(const Task& task) { return task.kind == TaskKind::kFill && Restores(task.fill); }

/// Copies in flight, of `most`, up to which another of this purpose begins.
std::uint32_t InFlightMax(std::uint32_t most, Purpose purpose) {
  switch (purpose) {
    case Purpose::kDemand:
      return most;
    case Purpose::kAhead:  // leaves room for demand
      return std::max(1u, most - most / 4);
    case Purpose::kClean:
      return std::max(1u, most / 2);
  }
  return 0;
}

}  // namespace

/// Brings a page one step nearer to where it is wanted.
Core::Impl::Progress Core::Impl::Advance(PageIndex index, const Goal& want, const Claim& claim) {
  Page& p = page(index);
  PageCopy& copy = p.copies[want.tier];
  const bool overwrite = want.mode == PageMode::kOverwrite;
  if (IsWrite(want.mode) && claim.purpose == Purpose::kDemand) HastenForWriter(index);
  if (copy.state == CopyState::kFilling) return Progress::kInFlight;
  if (copy.state == CopyState::kValid || (copy.state == CopyState::kPlaced && overwrite)) {
    return AdvanceResident(index, want, claim);
  }
  if (copy.state == CopyState::kPlaced) {
    if (copy.readers > 0 || copy.mapping) return Progress::kInFlight;
    // A page that did not arrive under its lease: its frame stays as long as that.
    if (PinnedAt(p, want.tier)) {
      return claim.purpose == Purpose::kDemand ? Progress::kBlocked : Progress::kInFlight;
    }
    DropCopy(index, want.tier);  // placed for an overwrite that did not come
  }
  if (p.write_pinned) return Progress::kInFlight;
  if (overwrite) return StartFillAt(index, want.tier, FillKind::kUndefined, want, claim);
  if (!p.content) return StartFillAt(index, want.tier, FillKind::kZero, want, claim);
  const std::optional<TierIndex> source = BestSource(p, want.tier);
  const bool refused = p.refused && source == last_tier();
  if (source.has_value() && !refused) return StartHop(index, *source, want, claim);
  return AdvanceWithoutSource(index, want, claim);
}

Core::Impl::Progress Core::Impl::AdvanceResident(PageIndex index,
                                                 const Goal& want,
                                                 const Claim& claim) {
  Page& p = page(index);
  PageCopy& copy = p.copies[want.tier];
  if (copy.transit && !Settle(index, want.tier, claim)) return Progress::kBlocked;
  const TierState& state = tiers_[want.tier];
  if (copy.leaving && state.starved && state.starved_arrival < claim.arrival) {
    return Progress::kInFlight;  // the page-out makes room for an earlier ticket (I8)
  }
  copy.leaving = false;  // wanted again: its page-out only cleans it
  if (want.map && !copy.mapped) {
    if (!copy.mapping) {
      copy.mapping = true;
      Task task{.kind = TaskKind::kMap, .page = index, .target = want.tier};
      task.target_frame = copy.frame;
      SetMappedTo(index, want.tier, copy.frame);
      const TaskNumber number = AddTask(task);
      UpdateFacts(index);
      Emit(StartMap{number, index, want.tier, copy.frame});
    }
    return Progress::kInFlight;
  }
  UpdateFacts(index);
  if (IsWrite(want.mode) && p.tasks > 0) return Progress::kInFlight;
  return Progress::kReady;
}

Core::Impl::Progress Core::Impl::AdvanceWithoutSource(PageIndex index,
                                                      const Goal& want,
                                                      const Claim& claim) {
  Page& p = page(index);
  for (TierIndex t = 0; t < tiers_.size(); ++t) {
    if (p.copies[t].state == CopyState::kFilling) return Progress::kInFlight;
  }
  SLUICE_CHECK(p.file_home || p.reproducible, "I2: content has a valid copy or a way to get one");
  const FillKind kind = p.file_home ? FillKind::kFile : FillKind::kReproduce;
  return StartFillAt(index, file_tier(), kind, want, claim);
}

/// The valid copy with the fewest hops to `target`; of two, the faster tier's.
std::optional<TierIndex> Core::Impl::BestSource(const Page& p, TierIndex target) const {
  for (TierIndex distance = 1; distance < tiers_.size(); ++distance) {
    if (distance <= target && p.copies[target - distance].state == CopyState::kValid) {
      return static_cast<TierIndex>(target - distance);
    }
    const std::size_t below = std::size_t{target} + distance;
    if (below < tiers_.size() && p.copies[below].state == CopyState::kValid) {
      return static_cast<TierIndex>(below);
    }
  }
  return std::nullopt;
}

Core::Impl::Progress Core::Impl::StartHop(PageIndex index,
                                          TierIndex source,
                                          const Goal& want,
                                          const Claim& claim) {
  Page& p = page(index);
  const bool in = source > want.tier;
  const auto hop = static_cast<TierIndex>(in ? source - 1 : source + 1);
  if (p.copies[hop].state == CopyState::kFilling) return Progress::kInFlight;
  if (p.copies[hop].state == CopyState::kPlaced) {
    if (p.copies[hop].readers > 0 || p.copies[hop].mapping) return Progress::kInFlight;
    DropCopy(index, hop);
    Recheck(index);
  }
  if (LinkFull(source, hop, claim.purpose)) return Progress::kBlocked;
  const LinkDirection direction = in ? LinkDirection::kIn : LinkDirection::kOut;
  Claim moving = claim;
  moving.mover = index;
  moving.arrives = hop == want.tier;
  const std::optional<FrameIndex> frame = TakeHopFrame(index, hop, direction, want, moving);
  if (!frame.has_value()) return Progress::kBlocked;
  Task task{.kind = TaskKind::kCopy, .page = index, .source = source, .target = hop};
  task.target_frame = *frame;
  task.map = want.map && hop == want.tier;
  task.purpose = claim.purpose;
  if (claim.purpose == Purpose::kAhead) NoteComing(p, want.tier);
  StartCopyTask(index, task);
  return Progress::kInFlight;
}

/// A frame for the next hop. When the tier on the way is full, the page passes through a transit
/// frame. It does so only with its final frame in hand, so that transit frames never wait for
/// residency (I9).
std::optional<FrameIndex> Core::Impl::TakeHopFrame(
    PageIndex index, TierIndex hop, LinkDirection direction, const Goal& want, const Claim& claim) {
  Page& p = page(index);
  if (p.held_tier == hop) {
    p.held_tier = kNoTier;
    std::erase(holding_, index);
    return std::exchange(p.held_frame, kNoFrame);
  }
  if (std::optional<FrameIndex> frame = TakeFrame(hop, claim)) return frame;
  if (hop == want.tier || !TransitFree(hop, direction)) return std::nullopt;
  if (p.held_tier == kNoTier) {
    const std::optional<FrameIndex> held = TakeFrame(want.tier, claim);
    if (!held.has_value()) return std::nullopt;
    p.held_tier = want.tier;
    p.held_frame = *held;
    holding_.push_back(index);
  }
  std::optional<FrameIndex> transit = TakeTransit(hop, direction, index);
  if (!transit.has_value()) DropHeld(index);
  return transit;
}

/// While a plan is awaited, pages are restored ahead of need a few at a time, as copies begin. A
/// page that had a frame and waited for the file would have displaced another one too early. A plan
/// tells which frames are free, and keeps the file busy.
Core::Impl::Progress Core::Impl::StartFillAt(
    PageIndex index, TierIndex tier, FillKind kind, const Goal& want, const Claim& claim) {
  const bool ahead = Restores(kind) && claim.purpose == Purpose::kAhead;
  const bool awaits_plan = options_.policy->planned() && !FollowsPlan();
  if (ahead && awaits_plan &&
      refills_in_flight_ >= InFlightMax(options_.copies_in_flight_max, claim.purpose)) {
    return Progress::kBlocked;
  }
  Page& p = page(index);
  PageCopy& copy = p.copies[tier];
  if (copy.state == CopyState::kPlaced) {
    if (copy.readers > 0 || copy.mapping) return Progress::kInFlight;
    DropCopy(index, tier);
  }
  Claim moving = claim;
  moving.mover = index;
  moving.arrives = tier == want.tier;
  const auto frame = TakeHopFrame(index, tier, LinkDirection::kIn, want, moving);
  if (!frame.has_value()) return Progress::kBlocked;
  Task task{.kind = TaskKind::kFill, .page = index, .target = tier, .target_frame = *frame};
  task.fill = kind;
  task.map = want.map && tier == want.tier;
  task.purpose = claim.purpose;
  if (claim.purpose == Purpose::kAhead) NoteComing(p, want.tier);
  copy.frame = *frame;
  copy.state = CopyState::kFilling;
  if (task.map) SetMappedTo(index, tier, *frame);
  const TaskNumber number = AddTask(task);
  UpdateFacts(index);
  Emit(StartFill{number, index, tier, *frame, kind, task.map});
  return Progress::kInFlight;
}

TaskNumber Core::Impl::AddTask(const Task& task) {
  ++page(task.page).tasks;
  if (IsRefill(task)) ++refills_in_flight_;
  tasks_.emplace(next_task_, task);
  return next_task_++;
}

/// Takes a task that has ended off the list.
Task Core::Impl::TakeTask(TaskNumber number) {
  const auto found = tasks_.find(number);
  SLUICE_CHECK(found != tasks_.end(), "a task is reported once");
  const Task task = found->second;
  tasks_.erase(found);
  hurried_.erase(number);
  if (unhurried_.erase(number) > 0) --tiers_[task.source].unhurried;
  --page(task.page).tasks;
  if (IsRefill(task)) --refills_in_flight_;
  return task;
}

void Core::Impl::StartCopyTask(PageIndex index, Task task) {
  Page& p = page(index);
  SLUICE_CHECK(!p.write_pinned, "I4: a page under a write lease is never the source of a copy");
  PageCopy& source = p.copies[task.source];
  PageCopy& target = p.copies[task.target];
  SLUICE_CHECK(source.state == CopyState::kValid && target.state == CopyState::kNone,
               "I2: copies go from a valid frame to an empty one");
  if (task.target < task.source) TellAccess(index, task.source);
  ++source.readers;
  target.frame = task.target_frame;
  target.state = CopyState::kFilling;
  ++link(task.source, task.target).in_flight[DirectionIndex(task.source, task.target)];
  task.urgent = task.purpose == Purpose::kDemand;
  if (task.map) SetMappedTo(index, task.target, task.target_frame);
  const TaskNumber number = AddTask(task);
  if (task.target > task.source) {
    (task.urgent ? hurried_ : unhurried_).insert(number);
    if (!task.urgent) ++tiers_[task.source].unhurried;
  }
  UpdateFacts(index);
  Emit(StartCopy{number,
                 index,
                 p.segment,
                 p.generation,
                 task.source,
                 source.frame,
                 task.target,
                 task.target_frame,
                 task.map,
                 task.urgent});
}

bool Core::Impl::LinkFull(TierIndex source, TierIndex target, Purpose purpose) {
  const std::uint32_t load = link(source, target).in_flight[DirectionIndex(source, target)];
  return load >= InFlightMax(options_.copies_in_flight_max, purpose);
}

void Core::Impl::On(const TaskDone& event) {
  const Task task = TakeTask(event.task);
  ++tasks_since_progress_;
  switch (task.kind) {
    case TaskKind::kCopy:
      return FinishCopy(task);
    case TaskKind::kFill:
      return FinishFill(task);
    case TaskKind::kMap:
      return FinishMap(task);
  }
}

void Core::Impl::FinishMap(const Task& task) {
  PageCopy& copy = page(task.page).copies[task.target];
  copy.mapping = false;
  copy.mapped = true;
  page(task.page).bring_failures[task.target] = 0;
  Recheck(task.page);
  ReconsiderGoal(task.page);
  UpdateFacts(task.page);
}

void Core::Impl::FinishFill(const Task& task) {
  page(task.page).copies[task.target].mapped = task.map;
  Arrive(
      task.page, task, task.fill == FillKind::kUndefined ? CopyState::kPlaced : CopyState::kValid);
}

void Core::Impl::FinishCopy(const Task& task) {
  Page& p = page(task.page);
  PageCopy& source = p.copies[task.source];
  --source.readers;
  --link(task.source, task.target).in_flight[DirectionIndex(task.source, task.target)];
  if (task.evict) --tiers_[task.source].leaving;
  if (task.purpose == Purpose::kClean) --tiers_[task.source].cleaning;
  p.copies[task.target].mapped = task.map;
  p.copies[task.target].state = CopyState::kValid;
  if (task.target > task.source) {
    tiers_[task.target].write_failures = 0;
    LiftFence(&tiers_[task.target]);
  }
  if (task.target == last_tier()) DropStale(task.page);
  const bool keeps = task.target < task.source && task.source != last_tier();
  if (keeps && FollowsPlan()) tiers_[task.source].brought_up.insert(task.page);
  const bool passed = source.transit && !PinnedAt(p, task.source);
  if (source.readers == 0 && !source.mapping && (source.leaving || passed)) {
    LeaveSource(task.page, task.source);
  }
  Arrive(task.page, task, CopyState::kValid);
}

/// Leaves the source of a copy. A page that is now in a doomed slot stays, as after a write that
/// failed. It is written elsewhere when it has to leave again.
void Core::Impl::LeaveSource(PageIndex index, TierIndex source) {
  Page& p = page(index);
  if (MayDrop(p, source)) {
    DropCopy(index, source);
  } else {
    p.copies[source].leaving = false;
  }
}

void Core::Impl::Arrive(PageIndex index, const Task& task, CopyState state) {
  Page& p = page(index);
  p.copies[task.target].state = state;
  p.copies[task.target].under_way = false;
  if (p.write_pinned) PinForWrite(index, task.target);
  const bool replaced = std::exchange(p.refused, false) && IsRefill(task);
  if (replaced && p.copies[last_tier()].state == CopyState::kValid) LoseSource(index, last_tier());
  p.bring_failures[task.target] = 0;
  if (p.copies[task.target].transit) transits_.push_back(index);
  if (p.coming_tier == task.target) {
    p.prefetched_tier = task.target;
    p.coming_tier = kNoTier;
  }
  Recheck(index);
  ReconsiderGoal(index);
  UpdateFacts(index);
  ReleaseLate(index);
}

void Core::Impl::On(const TaskFailed& event) {
  const Task task = TakeTask(event.task);
  Page& p = page(task.page);
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
    NoteWriteFailure(task.target);
    const bool wanted = !task.evict && task.purpose != Purpose::kClean;
    if (wanted) NoteBringFailure(task);
  } else {
    NoteBringFailure(task);
  }
  Recheck(task.page);
  ReconsiderGoal(task.page);
  UpdateFacts(task.page);
  ReleaseLate(task.page);
}

/// Whether a page whose copy in the last tier cannot be read is to be refilled. The copy stays
/// valid meanwhile, because the refill may fail too.
bool Core::Impl::MakesAgain(const Task& task, FailureKind kind) {
  const Page& p = page(task.page);
  const bool valid = task.kind == TaskKind::kCopy && task.source == last_tier() &&
                     p.copies[task.source].state == CopyState::kValid;
  return valid && kind == FailureKind::kSourceRefused && (p.file_home || p.reproducible);
}

/// Ends the refill of a page whose copy in the last tier could not be read. Returns whether that
/// copy is still there: it is read again then.
bool Core::Impl::KeepsRefused(Page& p) {
  p.refused = false;
  return p.copies[last_tier()].state == CopyState::kValid;
}

void Core::Impl::AbandonTarget(const Task& task) {
  Page& p = page(task.page);
  PageCopy& target = p.copies[task.target];
  if (p.coming_tier != kNoTier) EndPrefetch(p, &counters_.prefetch_wasted);
  if (task.map || task.kind == TaskKind::kMap) SetMappedTo(task.page, task.target, kNoFrame);
  if (task.kind == TaskKind::kMap) {
    target.mapping = false;
    return;
  }
  if (target.transit) {
    --tiers_[task.target].transit_used[static_cast<std::size_t>(target.transit_direction)];
  }
  if (PinnedAt(p, task.target)) {
    // The page's lease keeps the frame, without content.
    target.state = CopyState::kPlaced;
    target.under_way = target.mapped = false;
  } else {
    GiveFrame(task.target, target.frame, task.page);
    target = PageCopy{};
  }
  if (task.target == last_tier()) RestoreDoomed(task.page);
  DropHeld(task.page);
  if (task.kind == TaskKind::kFill) return;
  PageCopy& source = p.copies[task.source];
  --source.readers;
  --link(task.source, task.target).in_flight[DirectionIndex(task.source, task.target)];
  if (task.evict) --tiers_[task.source].leaving;
  if (task.purpose == Purpose::kClean) --tiers_[task.source].cleaning;
  source.leaving = false;
}

void Core::Impl::LoseSource(PageIndex index, TierIndex source) {
  Page& p = page(index);
  PageCopy& copy = p.copies[source];
  if (copy.state == CopyState::kValid && !PinnedAt(p, source)) {
    if (copy.readers == 0 && !copy.mapping) {
      DropCopy(index, source);
    } else {
      copy.state = CopyState::kPlaced;  // another task uses the frame: it stays, without content
    }
  }
  for (TierIndex t = 0; t < tiers_.size(); ++t) {
    if (p.copies[t].state == CopyState::kValid) return;
  }
  for (const auto& [number, task] : tasks_) {
    const bool brings = task.kind == TaskKind::kCopy ||
                        (task.kind == TaskKind::kFill && task.fill != FillKind::kUndefined);
    if (task.page == index && brings) return;
  }
  if (!p.file_home && !p.reproducible) LoseContent(index, source);
}

void Core::Impl::LoseContent(PageIndex index, TierIndex tier) {
  Page& p = page(index);
  p.content = false;
  if (Dies(p)) return;  // a discard has killed what is lost
  DropStale(index);
  p.lost = true;
  ++counters_.pages_lost;
  Emit(LosePage{index, tier});
  RemoveGoal(index);
  FailWaiting(index, TicketFailure::kPageLost, tier);
}

/// Fails every ticket that waits for the page's content.
void Core::Impl::FailWaiting(PageIndex index, TicketFailure reason, TierIndex tier) {
  std::vector<TicketNumber> numbers;
  for (const Need* need : page(index).queue) {
    if (need->ticket->kind != TicketKind::kAcquire) break;  // later tickets read zeros
    const bool waits = !need->ticket->granted;
    const bool reads = need->request.mode != PageMode::kOverwrite;
    if (waits && (reads || reason != TicketFailure::kPageLost)) {
      numbers.push_back(need->ticket->number);
    }
  }
  for (TicketNumber number : numbers) {
    FailTicketWith(*tickets_.at(number), FailTicket{number, reason, index, tier});
  }
}

void Core::Impl::NoteWriteFailure(TierIndex tier) {
  TierState& target = tiers_[tier];
  if (++target.write_failures < kWriteFailuresMax) return;
  target.write_failures = 0;
  if (!target.fenced) Emit(FenceTier{tier});
  target.fenced = true;
  target.fenced_before = next_arrival_;
}

/// Lifts the tier's fence. Pages doomed in the last tier were free to leave the others while there
/// was nowhere else to go.
void Core::Impl::LiftFence(TierState* tier) {
  if (!tier->fenced) return;
  tier->fenced = false;
  if (tier != &tiers_[last_tier()]) return;
  for (PageIndex index = 0; index < pages_.size(); ++index) {
    if (pages_[index].copies[last_tier()].doomed) UpdateFacts(index);
  }
}

/// Failures count per page. A page that cannot be brought fails its waiters, however well others
/// come.
void Core::Impl::NoteBringFailure(const Task& task) {
  std::uint8_t& failures = page(task.page).bring_failures[task.target];
  if (++failures < kBringFailuresMax) return;
  failures = 0;
  RemoveGoal(task.page);
  page(task.page).hint_tier = kNoTier;
  page(task.page).given_up = true;
  FailWaiting(task.page, TicketFailure::kTierFull, task.target);
}

}  // namespace sluice::core
