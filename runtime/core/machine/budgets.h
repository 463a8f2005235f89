#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Reservations, and changes of a tier's budget. Threads: externally synchronised.
class Budgets {
 public:
  explicit Budgets(Machine& machine) : m_(machine) {}

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
  void VacateBudgets();
  FrameIndex LeastFrames(TierIndex tier) const;
  void WorkOnReservations();

  const Reservations& reservations() const { return reservations_; }
  const std::vector<ReservationNumber>& pending_reservations() const {
    return pending_reservations_;
  }

 private:
  void Vacate(TierIndex tier, FrameIndex frame);
  std::uint32_t PinnedFrames(TierIndex tier) const;

  Machine& m_;
  Reservations reservations_;
  std::vector<ReservationNumber> pending_reservations_;
};

}  // namespace sluice::core
