#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Reservations, and changes of a tier's budget. Threads: externally synchronised.
class Budgets {
 public:
  explicit Budgets(ResidencyMachine& machine) : m_(machine) {}

  struct ReservedFrames {
    ReservationNumber number = 0;
    TierIndex tier = 0;
    std::uint32_t frames_wanted = 0;
    std::vector<FrameIndex> frames;
  };
  using Reservations = absl::flat_hash_map<ReservationNumber, ReservedFrames>;

  void On(const ReserveFrames& event);
  void On(const ReleaseFrames& event);
  void On(const SetBudget& event);
  /// Empties the frames above a lowered budget.
  void VacateBudgets();
  /// Takes frames for the reservations that wait, as far as there are any. Tells of those that are
  /// complete.
  void WorkOnReservations();

  const Reservations& reservations() const { return reservations_; }

  /// Refuses a reservation or a budget that waits for frames. Called when nothing is in flight,
  /// leased or waited for by tickets, so that a tier below takes no page. Returns whether there was
  /// one.
  bool RefuseOne();

 private:
  FrameIndex LeastFrames(TierIndex tier) const;
  void Vacate(TierIndex tier, FrameIndex frame);
  std::uint32_t PinnedFrames(TierIndex tier) const;

  ResidencyMachine& m_;
  Reservations reservations_;
  std::vector<ReservationNumber> pending_reservations_;
};

}  // namespace sluice::core
