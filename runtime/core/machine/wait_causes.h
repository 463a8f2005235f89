#pragma once

#include <vector>

#include "runtime/core/state/page.h"
#include "runtime/core/waits.h"

namespace sluice::core {

struct ResidencyMachine;

/// Causes that waiting tickets wait for. Threads: externally synchronised.
class WaitCauses {
 public:
  explicit WaitCauses(const ResidencyMachine& machine) : m_(machine) {}

  /// Writes the first waiting ticket of each lane, with its cause, to `waits`.
  void List(std::vector<TicketWait>* waits) const;

 private:
  bool LacksRoom(const Ticket& ticket) const;
  bool LacksRoom(const Need& need) const;
  bool RoomComes(TierIndex tier) const;
  bool HasPageOnItsWayOut(const Ticket& ticket) const;

  const ResidencyMachine& m_;
};

}  // namespace sluice::core
