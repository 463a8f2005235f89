#include <algorithm>
#include <set>

#include "base/check.h"
#include "runtime/core/core_impl.h"

namespace sluice::core {

/// After every event: whoever can go on does, in the order of arrival; then what is only foreseen.
void Core::Impl::Pump() {
  do {
    do {
      pump_again_ = false;
      PumpOnce();
    } while (pump_again_);
  } while (tasks_.empty() && FailStuckTicket());
}

void Core::Impl::ResetPumpState() {
  for (TierState& state : tiers_) {
    state.starved = false;
    state.starved_arrival = UINT64_MAX;
    state.ahead_blocked = false;
    state.deficit = 0;
    state.no_victim = false;
  }
  std::erase_if(kills_, [](const auto& kill) { return kill->pages_left == 0; });
}

void Core::Impl::PumpOnce() {
  ResetPumpState();
  ContinueTransits();
  for (std::size_t i = 0; i < pending_.size();) {
    Ticket* ticket = pending_[i];
    WorkOn(*ticket);
    if (i < pending_.size() && pending_[i] == ticket) ++i;
  }
  WorkOnReservations();
  VacateBudgets();
  ContinueGoals();
  for (TierIndex t = 0; t < last_tier(); ++t) PrefetchInto(t);
  for (TierIndex t = 0; t < last_tier(); ++t) CleanAhead(t);
}

/// Moves on every need of the ticket that is not under way; grants it when all are ready.
void Core::Impl::WorkOn(Ticket& ticket) {
  std::vector<std::uint32_t> work;
  work.swap(ticket.work);
  for (std::uint32_t ordinal : work) {
    Need& need = ticket.needs[ordinal];
    need.queued = false;
    if (need.ready || !need.locked) continue;
    const PageRequest& request = need.request;
    const Goal want{request.tier, request.mode, request.map, 0};
    const Claim claim{Purpose::kDemand, ticket.arrival, 0, request.page};
    const Progress progress = Advance(request.page, want, claim);
    if (progress == Progress::kBlocked && !need.queued) {
      need.queued = true;
      ticket.work.push_back(ordinal);
    }
    if (progress == Progress::kReady) MarkReady(need, IsReady(need));
  }
  if (ticket.unready > 0) return;
  for (Need& need : ticket.needs) {
    if (!IsReady(need)) MarkReady(need, false);
  }
  if (ticket.unready == 0) Grant(ticket);
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
  const bool wanted = p.held_tier != kNoTier || WantedUpTo(p, tier, UINT64_MAX);
  if (copy.transit_direction == Direction::kIn && wanted) return;  // its ticket or goal moves it
  if (FreeToLeave(p, tier)) {
    DropCopy(index, tier);
    Recheck(index);
    UpdateFacts(index);
    return;
  }
  const Claim claim{Purpose::kDemand, UINT64_MAX, 0, index};
  const auto target = static_cast<TierIndex>(tier + 1);
  if (p.write_pinned || tiers_[target].fenced || p.lowest <= tier) {
    Settle(index, tier, claim);
    return;
  }
  if (p.copies[target].state != CopyState::kNone) return;
  if (LinkFull(tier, target, Purpose::kDemand)) return;
  const std::optional<FrameIndex> frame = TakeForEviction(target, index, claim);
  if (!frame.has_value()) return;
  Task task{.kind = TaskKind::kCopy, .page = index, .source = tier, .target = target};
  task.target_frame = *frame;
  StartCopyTask(index, task);
}

/// Called when nothing is in flight: the head ticket waits for pages that only other ops can give
/// back, or for room that no tier below gives. True when a ticket was failed.
bool Core::Impl::FailStuckTicket() {
  if (pending_.empty()) return false;
  std::set<OpNumber> holders;
  for (const auto& [number, ticket] : tickets_) {
    if (ticket->granted && ticket->pinned > 0) holders.insert(ticket->op);
  }
  std::set<OpNumber> waiting;
  for (const Ticket* ticket : pending_) waiting.insert(ticket->op);
  if (!std::includes(waiting.begin(), waiting.end(), holders.begin(), holders.end())) {
    return false;  // somebody runs and will release
  }
  if (holders.empty()) {
    Ticket& head = *pending_.front();
    TierIndex tier = 0;
    for (TierIndex t = 0; t < tiers_.size(); ++t) {
      if (tiers_[t].starved) tier = t;
      if (tiers_[t].fenced) tier = t;
    }
    for (TierState& state : tiers_) {
      state.fenced = false;  // the next ticket tries again
      state.write_failures = 0;
    }
    FailTicketWith(head, FailTicket{head.number, TicketFailure::kTierFull, kNoPage, tier});
    return true;
  }
  for (auto ticket = pending_.rbegin(); ticket != pending_.rend(); ++ticket) {
    if (!holders.contains((*ticket)->op)) continue;
    FailTicketWith(**ticket, FailTicket{(*ticket)->number, TicketFailure::kWouldDeadlock});
    return true;
  }
  return false;
}

}  // namespace sluice::core
