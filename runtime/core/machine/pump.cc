#include "runtime/core/machine/pump.h"

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

/// Every round that asks for another has freed a frame or ended a ticket: far fewer than this.
constexpr std::uint32_t kPumpRoundsMax = 1'000'000;

}  // namespace

void Pump::Run() {
  std::uint32_t rounds = 0;
  for (TierState& state : m_.tiers) state.advised = false;
  do {
    do {
      SLUICE_CHECK(++rounds < kPumpRoundsMax, "I8: an event is handled in a bounded time");
      m_.pump_again = false;
      HaveRound();
    } while (m_.pump_again);
  } while (m_.tasks.empty() && m_.stuck_tickets.EndOne());
  m_.hastening.HastenForRoom();
}

void Pump::BeginRound() {
  for (TierState& state : m_.tiers) {
    state.starved = false;
    state.starved_arrival = UINT64_MAX;
    state.ahead_blocked = false;
    state.deficit = 0;
    state.no_victim = false;
  }
  ++m_.changes;
  m_.hastening.KeepShortages(0);
  m_.discards.ForgetFinished();
}

void Pump::HaveRound() {
  BeginRound();
  ContinueTransits();
  m_.hastening.KeepShortages(0);  // shortages of tickets alone count
  lanes_waiting_.clear();
  for (std::size_t i = 0; i < m_.pending.size();) {
    Ticket* ticket = m_.pending[i];
    m_.need_pass.WorkOn(*ticket);
    if (i >= m_.pending.size() || m_.pending[i] != ticket) continue;
    lanes_waiting_.insert(ticket->lane);
    ++i;
  }
  const std::size_t of_tickets = m_.hastening.shortages();
  m_.budgets.WorkOnReservations();
  m_.budgets.VacateBudgets();
  m_.plan_follower.ContinueLeaves();
  m_.goals.Continue();
  for (TierIndex t = 0; t < m_.last_tier(); ++t) m_.lookahead.PrefetchInto(t);
  for (TierIndex t = 0; t < m_.last_tier(); ++t) m_.lookahead.CleanAhead(t);
  m_.hastening.KeepShortages(of_tickets);
}

bool Pump::InTurn(const Ticket& ticket) const {
  return !lanes_waiting_.contains(ticket.lane) || m_.holders.contains(ticket.op);
}

void Pump::ContinueTransits() {
  const std::vector<PageIndex> waiting = m_.transits;
  for (PageIndex index : waiting) {
    for (TierIndex t = 0; t < m_.last_tier(); ++t) {
      const PageCopy& copy = m_.page(index).copies[t];
      const bool idle = copy.readers == 0 && !copy.mapping;
      if (copy.transit && copy.state == CopyState::kValid && idle) ContinueTransit(index, t);
    }
  }
}

/// A page in a transit frame goes on at once, or leaves when nobody waits for it any more.
void Pump::ContinueTransit(PageIndex index, TierIndex tier) {
  Page& p = m_.page(index);
  const PageCopy& copy = p.copies[tier];
  if (Dies(p)) return;
  const bool held = p.held_tier != kNoTier;
  const bool wanted =
      (held && p.goal.tier != kNoTier) || m_.victims.WantedUpTo(p, tier, UINT64_MAX);
  const bool goes_down = held && p.held_tier > tier;
  const bool comes = copy.transit_direction == LinkDirection::kIn;
  if (wanted && (comes || goes_down)) return;  // the page's ticket or goal moves it
  if (!wanted) m_.frames.DropHeld(index);
  if (m_.facts.MayDrop(p, tier)) {
    m_.frames.DropCopy(index, tier);
    m_.tickets.Recheck(index);
    m_.facts.Update(index);
    return;
  }
  // The transit frame is needed back by whoever comes first: what only later tickets want gives
  // way.
  const std::uint64_t arrival = m_.pending.empty() ? UINT64_MAX : m_.pending.front()->arrival;
  const Claim claim{.arrival = arrival, .page = index, .arrives = m_.holders.empty()};
  const auto target = static_cast<TierIndex>(tier + 1);
  if (p.write_pinned || m_.tiers[target].fenced || p.lowest <= tier) {
    m_.frames.Settle(index, tier, claim);
    return;
  }
  if (m_.movement.LinkFull(tier, target, Purpose::kDemand)) return;
  const std::optional<FrameIndex> frame = m_.eviction.TakeBelow(target, index, claim);
  if (!frame.has_value()) return;
  Task task{.kind = TaskKind::kCopy, .page = index, .source = tier, .target = target};
  task.target_frame = *frame;
  m_.movement.StartCopyTask(index, task);
}

}  // namespace sluice::core
