#include <algorithm>

#include "base/check.h"
#include "runtime/core/core_impl.h"

namespace sluice::core {
namespace {

/// Every round that asks for another has freed a frame or ended a ticket: far fewer than this.
constexpr std::uint32_t kPumpRoundsMax = 1'000'000;

}  // namespace

/// After every event: whoever can go on does, in the order of arrival; then what is only foreseen.
void Core::Impl::Pump() {
  std::uint32_t rounds = 0;
  for (TierState& state : tiers_) state.advised = false;
  do {
    do {
      SLUICE_CHECK(++rounds < kPumpRoundsMax, "I8: an event is handled in a bounded time");
      pump_again_ = false;
      PumpOnce();
    } while (pump_again_);
  } while (tasks_.empty() && FailStuckTicket());
  HastenForRoom();
}

void Core::Impl::ResetPumpState() {
  for (TierState& state : tiers_) {
    state.starved = false;
    state.starved_arrival = UINT64_MAX;
    state.ahead_blocked = false;
    state.deficit = 0;
    state.no_victim = false;
  }
  ++changes_;
  shortages_.clear();
  std::erase_if(kills_, [](const auto& kill) { return kill->pages_left == 0; });
}

void Core::Impl::PumpOnce() {
  ResetPumpState();
  ContinueTransits();
  shortages_.clear();  // only what tickets lack counts
  lanes_waiting_.clear();
  for (std::size_t i = 0; i < pending_.size();) {
    Ticket* ticket = pending_[i];
    WorkOn(*ticket);
    if (i >= pending_.size() || pending_[i] != ticket) continue;
    lanes_waiting_.insert(ticket->lane);
    ++i;
  }
  const std::size_t of_tickets = shortages_.size();
  WorkOnReservations();
  VacateBudgets();
  ContinueLeaves();
  ContinueGoals();
  for (TierIndex t = 0; t < last_tier(); ++t) PrefetchInto(t);
  for (TierIndex t = 0; t < last_tier(); ++t) CleanAhead(t);
  shortages_.resize(of_tickets);
}

/// Whether the claim's ticket gets no further frame in `tier` in this pump, whatever it is for.
bool Core::Impl::IsDry(TierIndex tier, const Claim& claim) {
  const TierState& state = tiers_[tier];
  return state.pool.free_count() <= TransitReserve(tier) &&
         (state.no_victim || NothingCanLeave(tier, claim) || LeavesMakeRoom(tier));
}

/// Whether the page's next step is another than that of most: from where it is into a frame that it
/// does not have yet. One that is copied while somebody waits to write it is looked at, to hasten.
bool Core::Impl::StepsAlone(const PageRequest& request) const {
  const Page& p = pages_[request.page];
  const bool hastens = IsWrite(request.mode) && p.tasks > 0;
  return p.copies[request.tier].state != CopyState::kNone || p.held_tier != kNoTier ||
         p.write_pinned || hastens || InTransit(p);
}

/// Those that take the same step as the page of the need.
NeedQueue::Group Core::Impl::GroupOf(const PageRequest& request) const {
  if (StepsAlone(request)) return NeedQueue::kAlone;
  const Page& p = pages_[request.page];
  if (!p.content || request.mode == PageMode::kOverwrite) return NeedQueue::Into(request.tier);
  const std::optional<TierIndex> source = BestSource(p, request.tier);
  if (!source.has_value()) return NeedQueue::kAlone;
  if (*source + 1 == request.tier) return NeedQueue::Down(request.tier);
  if (*source < request.tier) return NeedQueue::kAlone;
  const auto hop = static_cast<TierIndex>(*source - 1);
  const bool empty = p.copies[hop].state == CopyState::kNone;
  return empty ? NeedQueue::Up(hop, request.tier) : NeedQueue::kAlone;
}

/// Lets the others pass over what nobody who takes the same step can do in this pump: there is no
/// place on the link, or no frame where it leads and no way past it.
void Core::Impl::CloseWhatIsBarred(TierIndex wanted, const Claim& claim, NeedQueue::Pass* pass) {
  const bool dry = IsDry(wanted, claim);
  if (dry) NeedQueue::Close(NeedQueue::Into(wanted), pass);
  if (wanted > 0) {
    const auto above = static_cast<TierIndex>(wanted - 1);
    if (dry || LinkFull(above, wanted, claim.purpose)) {
      NeedQueue::Close(NeedQueue::Down(wanted), pass);
    }
  }
  for (TierIndex hop = wanted; hop < last_tier(); ++hop) {
    const auto below = static_cast<TierIndex>(hop + 1);
    const bool no_frame =
        IsDry(hop, claim) && (hop == wanted || dry || !TransitFree(hop, Direction::kIn));
    if (no_frame || LinkFull(below, hop, claim.purpose)) {
      NeedQueue::Close(NeedQueue::Up(hop, wanted), pass);
    }
  }
}

/// Moves the need on if it can; what it waits for, others of the ticket need not ask for.
void Core::Impl::WorkOn(NeedQueue::Ordinal ordinal, Ticket& ticket, NeedQueue::Pass* pass) {
  Need& need = ticket.needs[ordinal];
  if (need.ready || !need.locked) return ticket.queue.Remove(ordinal);
  const PageRequest& request = need.request;
  const NeedQueue::Group group = GroupOf(request);
  if (NeedQueue::IsClosed(*pass, group)) return ticket.queue.Move(ordinal, group);
  const Goal want{request.tier, request.mode, request.map, 0};
  const Claim claim{Purpose::kDemand, ticket.arrival, 0, request.page};
  const std::size_t others = shortages_.size();
  const Progress progress = Advance(request.page, want, claim);
  if (progress != Progress::kBlocked) {
    shortages_.resize(others);  // it found another way
    ticket.queue.Remove(ordinal);
    if (progress == Progress::kReady) MarkReady(need, IsReady(need));
    return;
  }
  ticket.queue.Move(ordinal, GroupOf(request));
  CloseWhatIsBarred(request.tier, claim, pass);
}

/// Those that were not looked at for want of room in `tier` lack it as well.
void Core::Impl::NotePassedOver(const Ticket& ticket, const NeedQueue::Pass& pass, TierIndex tier) {
  if (unhurried_.empty()) return;
  std::uint32_t noted = 0;
  const auto note = [&](NeedQueue::Ordinal ordinal) {
    const Need& need = ticket.needs[ordinal];
    if (need.ready || !need.locked || StepsAlone(need.request)) return false;
    NoteShortage(tier, {.arrival = ticket.arrival, .page = need.request.page});
    return ++noted == options_.copies_in_flight_max;
  };
  ticket.queue.AnyPassedOver(pass, NeedQueue::Into(tier), note);
  const auto above = static_cast<TierIndex>(tier - 1);
  if (tier > 0 && !LinkFull(above, tier, Purpose::kDemand)) {
    ticket.queue.AnyPassedOver(pass, NeedQueue::Down(tier), note);
  }
  const auto below = static_cast<TierIndex>(tier + 1);
  if (LinkFull(below, tier, Purpose::kDemand)) return;
  for (TierIndex wanted = 0; wanted <= tier; ++wanted) {
    ticket.queue.AnyPassedOver(pass, NeedQueue::Up(tier, wanted), note);
  }
}

/// Moves on every need of the ticket that is not under way; grants it when all are ready.
void Core::Impl::WorkOn(Ticket& ticket) {
  NeedQueue::Pass pass;
  while (const auto ordinal = ticket.queue.Next(&pass)) WorkOn(*ordinal, ticket, &pass);
  for (TierIndex t = 0; t < last_tier(); ++t) NotePassedOver(ticket, pass, t);
  if (ticket.unready > 0 || !InTurn(ticket)) return;
  for (Need& need : ticket.needs) {
    if (!IsReady(need)) MarkReady(need, false);
  }
  if (ticket.unready == 0) Grant(ticket);
}

/// Ops of a lane run one after another, so they get their pages in that order (I10): one that is
/// asked for ahead never pins what the op before it, on the same thread, still waits for. An op
/// that holds pages has begun, and the rest of the lane waits for it.
bool Core::Impl::InTurn(const Ticket& ticket) const {
  return !lanes_waiting_.contains(ticket.lane) || holders_.contains(ticket.op);
}

void Core::Impl::ContinueTransits() {
  const std::vector<PageIndex> waiting = transits_;
  for (PageIndex index : waiting) {
    for (TierIndex t = 0; t < last_tier(); ++t) {
      const PageCopy& copy = page(index).copies[t];
      const bool idle = copy.readers == 0 && !copy.mapping;
      if (copy.transit && copy.state == CopyState::kValid && idle) ContinueTransit(index, t);
    }
  }
}

/// A page in a transit frame goes on at once, or leaves when nobody waits for it any more.
void Core::Impl::ContinueTransit(PageIndex index, TierIndex tier) {
  Page& p = page(index);
  const PageCopy& copy = p.copies[tier];
  if (Dies(p)) return;
  const bool held = p.held_tier != kNoTier;
  const bool wanted = (held && p.goal.tier != kNoTier) || WantedUpTo(p, tier, UINT64_MAX);
  const bool goes_down = held && p.held_tier > tier;
  const bool comes = copy.transit_direction == Direction::kIn;
  if (wanted && (comes || goes_down)) return;  // its ticket or goal moves it
  if (!wanted) DropHeld(index);
  if (MayDrop(p, tier)) {
    DropCopy(index, tier);
    Recheck(index);
    UpdateFacts(index);
    return;
  }
  // The transit frame is needed back by whoever comes first: what only later tickets want gives
  // way.
  const std::uint64_t arrival = pending_.empty() ? UINT64_MAX : pending_.front()->arrival;
  const Claim claim{.arrival = arrival, .page = index, .arrives = holders_.empty()};
  const auto target = static_cast<TierIndex>(tier + 1);
  if (p.write_pinned || tiers_[target].fenced || p.lowest <= tier) {
    Settle(index, tier, claim);
    return;
  }
  if (LinkFull(tier, target, Purpose::kDemand)) return;
  const std::optional<FrameIndex> frame = TakeBelow(target, index, claim);
  if (!frame.has_value()) return;
  Task task{.kind = TaskKind::kCopy, .page = index, .source = tier, .target = target};
  task.target_frame = *frame;
  StartCopyTask(index, task);
}

/// The op's pages do not fit any more beside what cannot leave (since a budget was lowered, frames
/// were reserved, or by pages that may not go below the tier); else no room can be made in `tier`.
FailTicket Core::Impl::WhyStuck(const Ticket& ticket, TierIndex tier) const {
  for (TierIndex t = 0; t < last_tier(); ++t) {
    std::uint32_t own = 0;
    std::uint64_t others = tiers_[t].committed;
    for (const Need& need : ticket.needs) {
      if (need.request.tier != t) continue;
      ++own;
      if (pages_[need.request.page].lowest == t) --others;
    }
    const std::uint64_t limit = OpFramesMax(t) - std::min<std::uint64_t>(others, OpFramesMax(t));
    if (own <= limit) continue;
    const auto room = static_cast<std::uint32_t>(limit);
    return {ticket.number, TicketFailure::kTooLarge, kNoPage, t, own, room};
  }
  return {ticket.number, TicketFailure::kTierFull, kNoPage, tier};
}

/// Called when nothing is in flight, leased or waited for by tickets: a reservation or a budget
/// that lacks frames even so, because a tier below takes no page, is refused. True when one was.
bool Core::Impl::RefuseStuckChange() {
  if (!pending_reservations_.empty()) {
    const ReservationNumber number = pending_reservations_.front();
    On(ReleaseFrames{number});
    Emit(ReservationRefused{number});
    return true;
  }
  for (TierIndex t = 0; t < last_tier(); ++t) {
    TierState& state = tiers_[t];
    if (!state.budget_target.has_value()) continue;
    state.pool.SetLimit(state.budget_before);
    state.budget_target.reset();
    TellFrames(t);
    Emit(BudgetRefused{t});
    return true;
  }
  return false;
}

/// Whether the op, which holds pages, goes on only after the ticket: it is its own, or one of an
/// earlier op of its lane.
bool Core::Impl::WaitsFor(OpNumber op, const Holder& holder, const Ticket& ticket) {
  return ticket.op == op || (ticket.lane == holder.lane && ticket.op < op);
}

/// Fences say what was. A ticket that came since has the tier asked once more, and fails only when
/// that refuses again. True when there was such a fence.
bool Core::Impl::RetryFenced(std::uint64_t arrival) {
  bool retries = false;
  for (TierState& state : tiers_) {
    if (!state.fenced || arrival < state.fenced_before) continue;
    state.fenced = false;
    retries = true;
  }
  return retries;
}

/// Called when nothing is in flight or leased, so room is all that the tickets lack. One that can
/// never fit may hold up the head, which then goes on once that one has failed.
void Core::Impl::FailForRoom() {
  TierIndex tier = 0;
  for (TierIndex t = 0; t < tiers_.size(); ++t) {
    if (tiers_[t].starved) tier = t;
    if (tiers_[t].fenced) tier = t;
  }
  for (Ticket* ticket : pending_) {
    const FailTicket why = WhyStuck(*ticket, tier);
    if (why.reason == TicketFailure::kTooLarge) return FailTicketWith(*ticket, why);
  }
  if (RetryFenced(pending_.front()->arrival)) return;
  for (TierState& state : tiers_) {
    state.fenced = false;  // the next ticket tries again
    state.write_failures = 0;
  }
  Ticket& head = *pending_.front();
  FailTicketWith(head, WhyStuck(head, tier));
}

/// Called when nothing is in flight: the head ticket waits for pages that only other ops can give
/// back, or for room that no tier below gives. True when a ticket was failed, or a fence lifted.
bool Core::Impl::FailStuckTicket() {
  if (pending_.empty()) return pinned_pages_ == 0 && RefuseStuckChange();
  const auto runs = [this](const auto& holder) {
    return std::none_of(pending_.begin(), pending_.end(), [&](const Ticket* ticket) {
      return WaitsFor(holder.first, holder.second, *ticket);
    });
  };
  if (std::any_of(holders_.begin(), holders_.end(), runs)) return false;  // it will release
  if (holders_.empty()) {
    FailForRoom();
    return true;
  }
  for (auto ticket = pending_.rbegin(); ticket != pending_.rend(); ++ticket) {
    const bool blocks = std::any_of(holders_.begin(), holders_.end(), [&](const auto& holder) {
      return WaitsFor(holder.first, holder.second, **ticket);
    });
    if (!blocks) continue;
    FailTicketWith(**ticket, FailTicket{(*ticket)->number, TicketFailure::kWouldDeadlock});
    return true;
  }
  return false;
}

}  // namespace sluice::core
