#include <algorithm>

#include "runtime/core/machine/core_impl.h"

namespace sluice::core {

std::uint32_t Core::Impl::PinnedFrames(TierIndex tier) const {
  std::uint32_t pinned = tiers_[tier].reserved;
  for (const auto& [number, ticket] : tickets_) {
    if (!ticket->granted) continue;
    for (const Need& need : ticket->needs) {
      if (need.request.tier == tier && need.request.leases > 0) ++pinned;
    }
  }
  return pinned;
}

void Core::Impl::On(const ReserveFrames& event) {
  TierState& state = tiers_[event.tier];
  const bool fits =
      event.tier < last_tier() && event.frames + state.committed <= OpFramesMax(event.tier) &&
      event.frames + PinnedFrames(event.tier) + TransitReserve(event.tier) <= state.pool.limit();
  if (!fits) {
    Emit(ReservationRefused{event.reservation});
    return;
  }
  state.reserved += event.frames;
  TellFrames(event.tier);
  reservations_[event.reservation] =
      ReservedFrames{event.reservation, event.tier, event.frames, {}};
  pending_reservations_.push_back(event.reservation);
}

void Core::Impl::WorkOnReservations() {
  std::erase_if(pending_reservations_, [this](ReservationNumber number) {
    ReservedFrames& reservation = reservations_.at(number);
    const Claim claim{Purpose::kDemand, UINT64_MAX - 1, 0, kNoPage};
    TierState& state = tiers_[reservation.tier];
    while (reservation.frames.size() < reservation.frames_wanted) {
      const bool overtakes = state.starved && claim.arrival > state.starved_arrival;
      if (overtakes) return false;
      if (!EnsureRoom(reservation.tier, claim)) {
        state.starved = true;
        state.starved_arrival = std::min(state.starved_arrival, claim.arrival);
        return false;
      }
      reservation.frames.push_back(state.pool.Take(kNoPage));
    }
    Emit(FramesReserved{number, reservation.frames});
    return true;
  });
}

void Core::Impl::On(const ReleaseFrames& event) {
  const auto found = reservations_.find(event.reservation);
  if (found == reservations_.end()) return;
  TierState& state = tiers_[found->second.tier];
  for (FrameIndex frame : found->second.frames) state.pool.Give(frame);
  state.reserved -= found->second.frames_wanted;
  TellFrames(found->second.tier);
  std::erase(pending_reservations_, event.reservation);
  reservations_.erase(found);
  pump_again_ = true;
}

/// Frames that the tier needs now: transit frames, and those leased, reserved or committed to it.
/// Committed pages never share a frame with a reservation (I6). One frame more is for other pages,
/// if there can be any.
FrameIndex Core::Impl::LeastFrames(TierIndex tier) const {
  const TierState& state = tiers_[tier];
  const std::uint64_t held = state.committed + state.reserved;
  const std::uint64_t stays = HoldsPagesBelow(tier) || held == 0 ? held + 1 : held;
  const std::uint64_t least =
      std::max<std::uint64_t>(PinnedFrames(tier) + 1, stays) + TransitFrames(tier);
  return static_cast<FrameIndex>(std::min<std::uint64_t>(least, kNoFrame));
}

void Core::Impl::On(const SetBudget& event) {
  if (event.tier >= last_tier() || event.frames > tiers_[event.tier].pool.frames_max()) {
    Emit(BudgetRefused{event.tier});
    return;
  }
  TierState& state = tiers_[event.tier];
  bool reserved_above = false;
  for (const auto& [number, reservation] : reservations_) {
    for (FrameIndex frame : reservation.frames) {
      reserved_above = reserved_above || (reservation.tier == event.tier && frame >= event.frames);
    }
  }
  const FrameIndex least = LeastFrames(event.tier);
  if (state.budget_target.has_value() || reserved_above || event.frames < least) {
    Emit(BudgetRefused{event.tier, least});
    return;
  }
  state.budget_before = state.pool.limit();
  state.pool.SetLimit(event.frames);
  state.budget_target = event.frames;
  TellFrames(event.tier);
}

void Core::Impl::Vacate(TierIndex tier, FrameIndex frame) {
  const PageIndex index = tiers_[tier].pool.owner(frame);
  if (index == kNoPage) return;
  if (page(index).held_tier == tier && page(index).held_frame == frame) {
    if (!WantedUpTo(page(index), tier, UINT64_MAX)) DropHeld(index);
    return;
  }
  if (page(index).copies[tier].frame != frame) return;
  if (!IsIdle(page(index), tier)) return;  // a page that a ticket waits for comes back elsewhere
  const Claim claim{.departure = Departure::kOther};
  if (MayDrop(page(index), tier)) {
    EvictFree(tier, index, claim);
  } else if (page(index).lowest > tier && !tiers_[tier + 1].fenced) {
    StartEviction(tier, index, claim);
  }
}

/// Empties the frames above a lowered budget.
void Core::Impl::VacateBudgets() {
  for (TierIndex t = 0; t < last_tier(); ++t) {
    TierState& state = tiers_[t];
    if (!state.budget_target.has_value()) continue;
    bool empty = true;
    for (FrameIndex frame = *state.budget_target; frame < state.pool.frames_max(); ++frame) {
      if (state.pool.in_use(frame)) Vacate(t, frame);
      empty = empty && !state.pool.in_use(frame);
    }
    if (!empty) continue;
    Emit(BudgetSet{t, *state.budget_target});
    state.budget_target.reset();
  }
}

}  // namespace sluice::core
