#include "runtime/core/paging/movement.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

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

Progress Movement::Advance(PageIndex index, const Goal& want, const Claim& claim) {
  Page& p = m_.page(index);
  PageCopy& copy = p.copies[want.tier];
  const bool overwrite = want.mode == PageMode::kOverwrite;
  if (IsWrite(want.mode) && claim.purpose == Purpose::kDemand) m_.hastening.HastenForWriter(index);
  if (copy.state == CopyState::kFilling) return Progress::kInFlight;
  if (copy.state == CopyState::kValid || (copy.state == CopyState::kPlaced && overwrite)) {
    return AdvanceResident(index, want, claim);
  }
  if (copy.state == CopyState::kPlaced) {
    if (copy.readers > 0 || copy.mapping) return Progress::kInFlight;
    // A page that did not arrive under its lease: its frame stays as long as that.
    if (m_.facts.PinnedAt(p, want.tier)) {
      return claim.purpose == Purpose::kDemand ? Progress::kBlocked : Progress::kInFlight;
    }
    m_.frames.DropCopy(index, want.tier);  // placed for an overwrite that did not come
  }
  if (p.write_pinned) return Progress::kInFlight;
  if (overwrite) return StartFillAt(index, want.tier, FillKind::kUndefined, want, claim);
  if (!p.content) return StartFillAt(index, want.tier, FillKind::kZero, want, claim);
  const std::optional<TierIndex> source = m_.copies.BestSource(p, want.tier);
  const bool refused = p.refused && source == m_.last_tier();
  if (source.has_value() && !refused) return StartHop(index, *source, want, claim);
  return AdvanceWithoutSource(index, want, claim);
}

Progress Movement::AdvanceResident(PageIndex index, const Goal& want, const Claim& claim) {
  Page& p = m_.page(index);
  PageCopy& copy = p.copies[want.tier];
  if (copy.transit && !m_.frames.Settle(index, want.tier, claim)) return Progress::kBlocked;
  const TierState& state = m_.tiers[want.tier];
  if (copy.leaving && state.starved && state.starved_arrival < claim.arrival) {
    return Progress::kInFlight;  // the page-out makes room for an earlier ticket (I8)
  }
  copy.leaving = false;  // wanted again: its page-out only cleans it
  if (want.map && !copy.mapped) {
    if (!copy.mapping) {
      copy.mapping = true;
      Task task{.kind = TaskKind::kMap, .page = index, .target = want.tier};
      task.target_frame = copy.frame;
      m_.frames.SetMappedTo(index, want.tier, copy.frame);
      const TaskNumber number = AddTask(task);
      m_.facts.Update(index);
      const bool placed = copy.state == CopyState::kPlaced;
      m_.Emit(StartMap{number, index, want.tier, copy.frame, placed});
    }
    return Progress::kInFlight;
  }
  m_.facts.Update(index);
  if (IsWrite(want.mode) && p.tasks > 0) return Progress::kInFlight;
  return Progress::kReady;
}

Progress Movement::AdvanceWithoutSource(PageIndex index, const Goal& want, const Claim& claim) {
  Page& p = m_.page(index);
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    if (p.copies[t].state == CopyState::kFilling) return Progress::kInFlight;
  }
  SLUICE_CHECK(p.file_home || p.reproducible, "I2: content has a valid copy or a way to get one");
  const FillKind kind = p.file_home ? FillKind::kFile : FillKind::kReproduce;
  return StartFillAt(index, m_.file_tier(), kind, want, claim);
}

Progress Movement::StartHop(PageIndex index,
                            TierIndex source,
                            const Goal& want,
                            const Claim& claim) {
  Page& p = m_.page(index);
  const bool in = source > want.tier;
  const auto hop = static_cast<TierIndex>(in ? source - 1 : source + 1);
  if (p.copies[hop].state == CopyState::kFilling) return Progress::kInFlight;
  if (p.copies[hop].state == CopyState::kPlaced) {
    if (p.copies[hop].readers > 0 || p.copies[hop].mapping) return Progress::kInFlight;
    m_.frames.DropCopy(index, hop);
    m_.tickets.Recheck(index);
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
  if (claim.purpose == Purpose::kAhead) m_.goals.NoteComing(p, want.tier);
  StartCopyTask(index, task);
  return Progress::kInFlight;
}

/// A frame for the next hop. When the tier on the way is full, the page passes through a transit
/// frame. It does so only with its final frame in hand, so that transit frames never wait for
/// residency (I9).
std::optional<FrameIndex> Movement::TakeHopFrame(
    PageIndex index, TierIndex hop, LinkDirection direction, const Goal& want, const Claim& claim) {
  Page& p = m_.page(index);
  if (p.held_tier == hop) {
    p.held_tier = kNoTier;
    std::erase(m_.holding, index);
    return std::exchange(p.held_frame, kNoFrame);
  }
  if (std::optional<FrameIndex> frame = m_.frames.Take(hop, claim)) return frame;
  if (hop == want.tier || !m_.frames.TransitFree(hop, direction)) return std::nullopt;
  if (p.held_tier == kNoTier) {
    const std::optional<FrameIndex> held = m_.frames.Take(want.tier, claim);
    if (!held.has_value()) return std::nullopt;
    p.held_tier = want.tier;
    p.held_frame = *held;
    m_.holding.push_back(index);
  }
  std::optional<FrameIndex> transit = m_.frames.TakeTransit(hop, direction, index);
  if (!transit.has_value()) m_.frames.DropHeld(index);
  return transit;
}

/// While a plan is awaited, pages are restored ahead of need a few at a time, as copies begin. A
/// page that had a frame and waited for the file would have displaced another one too early. A plan
/// tells which frames are free, and keeps the file busy.
Progress Movement::StartFillAt(
    PageIndex index, TierIndex tier, FillKind kind, const Goal& want, const Claim& claim) {
  const bool ahead = Restores(kind) && claim.purpose == Purpose::kAhead;
  const bool awaits_plan = m_.options.policy->planned() && !m_.plan_follower.FollowsPlan();
  if (ahead && awaits_plan &&
      m_.refills_in_flight >= InFlightMax(m_.options.copies_in_flight_max, claim.purpose)) {
    return Progress::kBlocked;
  }
  Page& p = m_.page(index);
  PageCopy& copy = p.copies[tier];
  if (copy.state == CopyState::kPlaced) {
    if (copy.readers > 0 || copy.mapping) return Progress::kInFlight;
    m_.frames.DropCopy(index, tier);
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
  if (claim.purpose == Purpose::kAhead) m_.goals.NoteComing(p, want.tier);
  copy.frame = *frame;
  copy.state = CopyState::kFilling;
  if (task.map) m_.frames.SetMappedTo(index, tier, *frame);
  const TaskNumber number = AddTask(task);
  m_.facts.Update(index);
  m_.Emit(StartFill{number, index, tier, *frame, kind, task.map});
  return Progress::kInFlight;
}

TaskNumber Movement::AddTask(const Task& task) {
  ++m_.page(task.page).tasks;
  if (IsRefill(task)) ++m_.refills_in_flight;
  m_.tasks.emplace(next_task_, task);
  return next_task_++;
}

void Movement::StartCopyTask(PageIndex index, Task task) {
  Page& p = m_.page(index);
  SLUICE_CHECK(!p.write_pinned, "I4: a page under a write lease is never the source of a copy");
  PageCopy& source = p.copies[task.source];
  PageCopy& target = p.copies[task.target];
  SLUICE_CHECK(source.state == CopyState::kValid && target.state == CopyState::kNone,
               "I2: copies go from a valid frame to an empty one");
  if (task.target < task.source) m_.facts.TellAccess(index, task.source);
  ++source.readers;
  target.frame = task.target_frame;
  target.state = CopyState::kFilling;
  ++m_.link(task.source, task.target).in_flight[DirectionIndex(task.source, task.target)];
  task.urgent = task.purpose == Purpose::kDemand;
  if (task.map) m_.frames.SetMappedTo(index, task.target, task.target_frame);
  const TaskNumber number = AddTask(task);
  m_.hastening.NoteStart(number, task);
  m_.facts.Update(index);
  m_.Emit(StartCopy{number,
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

bool Movement::LinkFull(TierIndex source, TierIndex target, Purpose purpose) const {
  const std::uint32_t load = m_.link(source, target).in_flight[DirectionIndex(source, target)];
  return load >= InFlightMax(m_.options.copies_in_flight_max, purpose);
}

}  // namespace sluice::core
