#include "runtime/core/machine/budgets.h"

#include <algorithm>

#include "runtime/core/machine/machine.h"

namespace sluice::core {

std::uint32_t Budgets::PinnedFrames(TierIndex tier) const {
  std::uint32_t pinned = m_.tiers[tier].reserved;
  for (const auto& [number, ticket] : m_.live_tickets) {
    if (!ticket->granted) continue;
    for (const Need& need : ticket->needs) {
      if (need.request.tier == tier && need.request.leases > 0) ++pinned;
    }
  }
  return pinned;
}

void Budgets::On(const ReserveFrames& event) {
  if (event.tier >= m_.last_tier()) {
    m_.Emit(ReservationRefused{event.reservation});
    return;
  }
  TierState& state = m_.tiers[event.tier];
  const bool fits =
      event.frames + state.committed <= m_.capacity.OpFramesMax(event.tier) &&
      event.frames + PinnedFrames(event.tier) + m_.frames.TransitReserve(event.tier) <=
          state.pool.limit();
  if (!fits) {
    m_.Emit(ReservationRefused{event.reservation});
    return;
  }
  state.reserved += event.frames;
  m_.facts.TellFrames(event.tier);
  reservations_[event.reservation] =
      ReservedFrames{event.reservation, event.tier, event.frames, {}};
  pending_reservations_.push_back(event.reservation);
}

void Budgets::WorkOnReservations() {
  std::erase_if(pending_reservations_, [this](ReservationNumber number) {
    ReservedFrames& reservation = reservations_.at(number);
    const Claim claim{Purpose::kDemand, UINT64_MAX - 1, 0, kNoPage};
    TierState& state = m_.tiers[reservation.tier];
    while (reservation.frames.size() < reservation.frames_wanted) {
      const bool overtakes = state.starved && claim.arrival > state.starved_arrival;
      if (overtakes) return false;
      if (!m_.eviction.EnsureRoom(reservation.tier, claim)) {
        state.starved = true;
        state.starved_arrival = std::min(state.starved_arrival, claim.arrival);
        return false;
      }
      reservation.frames.push_back(state.pool.Take(kNoPage));
    }
    m_.Emit(FramesReserved{number, reservation.frames});
    return true;
  });
}

void Budgets::On(const ReleaseFrames& event) {
  const auto found = reservations_.find(event.reservation);
  if (found == reservations_.end()) return;
  TierState& state = m_.tiers[found->second.tier];
  for (FrameIndex frame : found->second.frames) state.pool.Give(frame);
  state.reserved -= found->second.frames_wanted;
  m_.facts.TellFrames(found->second.tier);
  std::erase(pending_reservations_, event.reservation);
  reservations_.erase(found);
  m_.pump_again = true;
}

/// Frames that the tier needs now: transit frames, and those leased, reserved or committed to it.
/// Committed pages never share a frame with a reservation (I6). One frame more is for other pages,
/// if there can be any.
FrameIndex Budgets::LeastFrames(TierIndex tier) const {
  const TierState& state = m_.tiers[tier];
  const std::uint64_t held = state.committed + state.reserved;
  const std::uint64_t stays = m_.capacity.HoldsPagesBelow(tier) || held == 0 ? held + 1 : held;
  const std::uint64_t least =
      std::max<std::uint64_t>(PinnedFrames(tier) + 1, stays) + m_.frames.TransitFrames(tier);
  return static_cast<FrameIndex>(std::min<std::uint64_t>(least, kNoFrame));
}

void Budgets::On(const SetBudget& event) {
  if (event.tier >= m_.last_tier() || event.frames > m_.tiers[event.tier].pool.frames_max()) {
    m_.Emit(BudgetRefused{event.tier});
    return;
  }
  TierState& state = m_.tiers[event.tier];
  bool reserved_above = false;
  for (const auto& [number, reservation] : reservations_) {
    for (FrameIndex frame : reservation.frames) {
      reserved_above = reserved_above || (reservation.tier == event.tier && frame >= event.frames);
    }
  }
  const FrameIndex least = LeastFrames(event.tier);
  if (state.budget_target.has_value() || reserved_above || event.frames < least) {
    m_.Emit(BudgetRefused{event.tier, least});
    return;
  }
  state.budget_before = state.pool.limit();
  state.pool.SetLimit(event.frames);
  state.budget_target = event.frames;
  m_.facts.TellFrames(event.tier);
}

void Budgets::Vacate(TierIndex tier, FrameIndex frame) {
  const PageIndex index = m_.tiers[tier].pool.owner(frame);
  if (index == kNoPage) return;
  if (m_.page(index).held_tier == tier && m_.page(index).held_frame == frame) {
    if (!m_.victims.WantedUpTo(m_.page(index), tier, UINT64_MAX)) m_.frames.DropHeld(index);
    return;
  }
  if (m_.page(index).copies[tier].frame != frame) return;
  if (!m_.facts.IsIdle(m_.page(index), tier))
    return;  // a page that a ticket waits for comes back elsewhere
  const Claim claim{.departure = Departure::kOther};
  if (m_.facts.MayDrop(m_.page(index), tier)) {
    m_.eviction.EvictFree(tier, index, claim);
  } else if (m_.page(index).lowest > tier && !m_.tiers[tier + 1].fenced) {
    m_.eviction.StartEviction(tier, index, claim);
  }
}

void Budgets::VacateBudgets() {
  for (TierIndex t = 0; t < m_.last_tier(); ++t) {
    TierState& state = m_.tiers[t];
    if (!state.budget_target.has_value()) continue;
    bool empty = true;
    for (FrameIndex frame = *state.budget_target; frame < state.pool.frames_max(); ++frame) {
      if (state.pool.in_use(frame)) Vacate(t, frame);
      empty = empty && !state.pool.in_use(frame);
    }
    if (!empty) continue;
    m_.Emit(BudgetSet{t, *state.budget_target});
    state.budget_target.reset();
  }
}

bool Budgets::RefuseOne() {
  if (!pending_reservations_.empty()) {
    const ReservationNumber number = pending_reservations_.front();
    On(ReleaseFrames{number});
    m_.Emit(ReservationRefused{number});
    return true;
  }
  for (TierIndex t = 0; t < m_.last_tier(); ++t) {
    TierState& state = m_.tiers[t];
    if (!state.budget_target.has_value()) continue;
    state.pool.SetLimit(state.budget_before);
    state.budget_target.reset();
    m_.facts.TellFrames(t);
    m_.Emit(BudgetRefused{t, LeastFrames(t)});
    return true;
  }
  return false;
}

}  // namespace sluice::core
