#pragma once

#include <cstdint>

#include "runtime/core/actions.h"
#include "runtime/core/state/page.h"
#include "runtime/core/state/tier_state.h"

namespace sluice::core {

struct ResidencyMachine;

/// Tickets, reservations and budgets that nothing in flight can help: told so, and ended (I8).
/// Threads: externally synchronised.
class StuckTickets {
 public:
  explicit StuckTickets(ResidencyMachine& machine) : m_(machine) {}

  /// Ends what is stuck, when no task is in flight. The head ticket waits for pages that only other
  /// ops can give back, or for room that no tier below gives. Without tickets, a reservation or a
  /// budget may lack frames. Returns whether a ticket was failed, a fence lifted, or a reservation
  /// or budget refused.
  bool EndOne();

 private:
  void FailForRoom();
  FailTicket WhyStuck(const Ticket& ticket, TierIndex tier) const;
  static bool WaitsFor(OpNumber op, const Holder& holder, const Ticket& ticket);

  ResidencyMachine& m_;
};

}  // namespace sluice::core
