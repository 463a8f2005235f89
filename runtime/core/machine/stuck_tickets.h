#pragma once

#include <cstdint>

#include "runtime/core/actions.h"
#include "runtime/core/state/page.h"
#include "runtime/core/state/tier_state.h"

namespace sluice::core {

struct Machine;

/// Tickets, reservations and budgets that nothing in flight can help: told so, and ended (I8).
/// Threads: externally synchronised.
class StuckTickets {
 public:
  explicit StuckTickets(Machine& machine) : m_(machine) {}

  bool FailStuckTicket();

 private:
  bool RetryFenced(std::uint64_t arrival);
  void FailForRoom();
  FailTicket WhyStuck(const Ticket& ticket, TierIndex tier) const;
  bool RefuseStuckChange();
  static bool WaitsFor(OpNumber op, const Holder& holder, const Ticket& ticket);

  Machine& m_;
};

}  // namespace sluice::core
