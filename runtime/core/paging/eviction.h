#pragma once

#include <optional>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Makes room in a tier: drops victims, or copies them one tier down. Threads: externally
/// synchronised.
class Eviction {
 public:
  explicit Eviction(ResidencyMachine& machine) : m_(machine) {}

  /// Returns whether a frame beyond the transit reserve is free, after victims have left. One
  /// that sat above a lowered budget gives no frame that may be used, so there may have to be
  /// several.
  bool EnsureRoom(TierIndex tier, const Claim& claim);
  /// Returns whether no page can leave now, whichever it is: the way down is full, and none leaves
  /// for nothing.
  bool NothingCanLeave(TierIndex tier, const Claim& claim) const;
  /// Takes a frame for the page's content one tier down: the one that was placed there for an
  /// overwrite of it (who waits for that then waits for the content), else another.
  std::optional<FrameIndex> TakeBelow(TierIndex tier, PageIndex index, const Claim& claim);
  /// Starts the copy of a page one tier down, after which it leaves, unless it is only cleaned.
  /// False: the link or the tier below is full.
  bool StartEviction(TierIndex tier, PageIndex index, const Claim& claim);
  /// Drops a page from the tier at once, where nothing is lost with it.
  void EvictFree(TierIndex tier, PageIndex index, const Claim& claim);

 private:
  bool MakeRoom(TierIndex tier, const Claim& claim);
  bool MakeRoomByOtherVictim(TierIndex tier, const Claim& claim);
  bool Restless() const;
  bool GivesWay(const Claim& claim) const;
  std::optional<FrameIndex> TakeForEviction(TierIndex tier, PageIndex index, const Claim& claim);
  bool MoverMakesWay(TierIndex tier, const Claim& claim) const;

  ResidencyMachine& m_;
};

}  // namespace sluice::core
