#pragma once

#include "absl/container/flat_hash_set.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// The work that follows every event: tickets that may go on, then pages that are foreseen.
/// Threads: externally synchronised.
class Pump {
 public:
  explicit Pump(Machine& machine) : m_(machine) {}

  void Run();
  bool InTurn(const Ticket& ticket) const;

 private:
  void PumpOnce();
  void ResetPumpState();
  void ContinueTransits();
  void ContinueTransit(PageIndex index, TierIndex tier);

  Machine& m_;
  /// Lanes with an earlier pending ticket, per pump.
  absl::flat_hash_set<LaneIndex> lanes_waiting_;
};

}  // namespace sluice::core
