#pragma once

#include "absl/container/flat_hash_set.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// The work that follows every batch of events, in rounds. Threads: externally synchronised.
class Pump {
 public:
  explicit Pump(ResidencyMachine& machine) : m_(machine) {}

  /// Has rounds until none asks for another. In each, tickets that can go on do so, in the order of
  /// arrival. Pages that are only foreseen come after them.
  void Run();
  /// Returns whether no earlier op of the ticket's lane waits. Ops of a lane run one after another,
  /// so they get their pages in that order (I10): one that is
  /// asked for ahead never pins what the op before it, on the same thread, still waits for. An op
  /// that holds pages has begun, and the rest of the lane waits for it.
  bool InTurn(const Ticket& ticket) const;

 private:
  void HaveRound();
  void BeginRound();
  void ContinueTransits();
  void ContinueTransit(PageIndex index, TierIndex tier);

  ResidencyMachine& m_;
  /// Lanes with an earlier pending ticket, per round.
  absl::flat_hash_set<LaneIndex> lanes_waiting_;
};

}  // namespace sluice::core
