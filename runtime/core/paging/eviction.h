#pragma once

#include <optional>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Makes room in a tier: drops victims, or copies them one tier down. Threads: externally
/// synchronised.
class Eviction {
 public:
  explicit Eviction(Machine& machine) : m_(machine) {}

  bool EnsureRoom(TierIndex tier, const Claim& claim);
  bool NothingCanLeave(TierIndex tier, const Claim& claim);
  std::optional<FrameIndex> TakeBelow(TierIndex tier, PageIndex index, const Claim& claim);
  bool StartEviction(TierIndex tier, PageIndex index, const Claim& claim);
  void EvictFree(TierIndex tier, PageIndex index, const Claim& claim);

 private:
  bool MakeRoom(TierIndex tier, const Claim& claim);
  bool MakeRoomByOtherVictim(TierIndex tier, const Claim& claim);
  bool Restless() const;
  bool GivesWay(const Claim& claim) const;
  std::optional<FrameIndex> TakeForEviction(TierIndex tier, PageIndex index, const Claim& claim);
  bool MoverMakesWay(TierIndex tier, const Claim& claim) const;

  Machine& m_;
};

}  // namespace sluice::core
