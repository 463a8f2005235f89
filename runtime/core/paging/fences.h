#pragma once

#include <cstdint>

#include "runtime/core/types.h"

namespace sluice::core {

struct ResidencyMachine;

/// Fences of tiers that refuse what is copied down to them: nothing is sent there while one stands.
/// Threads: externally synchronised.
class Fences {
 public:
  explicit Fences(ResidencyMachine& machine) : m_(machine) {}

  /// A copy down to the tier has ended well: the tier takes pages.
  void NoteWrite(TierIndex tier);
  /// A copy down to the tier has failed. Several in a row raise the fence.
  void NoteWriteFailure(TierIndex tier);
  /// Lifts the fences that a ticket of this arrival has not met yet. They say what was, and such a
  /// ticket fails only when the tier refuses again. Returns whether there was one.
  bool LiftBefore(std::uint64_t arrival);
  /// Lifts all fences, so that the next ticket tries again.
  void LiftAll();

 private:
  void Lift(TierIndex tier);

  ResidencyMachine& m_;
};

}  // namespace sluice::core
