#include <algorithm>

#include "base/check.h"
#include "runtime/core/machine/core_impl.h"

namespace sluice::core {
namespace {

/// Every round that asks for another has freed a frame or ended a ticket: far fewer than this.
constexpr std::uint32_t kPumpRoundsMax = 1'000'000;

}  // namespace

/// Works after every event, or several that came together. Tickets that can go on do so, in the
/// order of arrival. Pages that are only foreseen come after them.
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
  shortages_.clear();  // shortages of tickets alone count
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
  const bool comes = copy.transit_direction == LinkDirection::kIn;
  if (wanted && (comes || goes_down)) return;  // the page's ticket or goal moves it
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

/// Reason for which a ticket is stuck. The op's pages may not fit any more beside those that cannot
/// leave: a budget was lowered, frames were reserved, or pages may not go below the tier. Else no
/// room can be made in `tier`.
FailTicket Core::Impl::WhyStuck(const Ticket& ticket, TierIndex tier) const {
  for (TierIndex t = 0; t < last_tier(); ++t) {
    std::uint32_t own = 0;
    std::uint64_t others = tiers_[t].committed;
    for (const Need& need : ticket.needs) {
      if (need.request.tier != t) continue;
      ++own;
      const Page& p = pages_[need.request.page];
      if (p.lowest == t && !p.read_only) --others;
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
    Emit(BudgetRefused{t, LeastFrames(t)});
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
    LiftFence(&state);
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
    LiftFence(&state);  // the next ticket tries again
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
  // An op that runs will release its pages.
  if (std::any_of(holders_.begin(), holders_.end(), runs)) return false;
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
