#pragma once

#include <optional>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Frames of the tiers: taken, held for a page-in, lent as transit frames, given back. Threads:
/// externally synchronised.
class Frames {
 public:
  explicit Frames(Machine& machine) : m_(machine) {}

  std::optional<FrameIndex> TakeFrame(TierIndex tier, const Claim& claim);
  bool TransitFree(TierIndex tier, LinkDirection direction) const;
  std::optional<FrameIndex> TakeTransit(TierIndex tier, LinkDirection direction, PageIndex index);
  FrameIndex TransitFrames(TierIndex tier) const;
  FrameIndex TransitReserve(TierIndex tier) const;
  FrameIndex TakeFrameFor(TierIndex tier, PageIndex index);
  void SetMappedTo(PageIndex index, TierIndex tier, FrameIndex frame);
  void GiveFrame(TierIndex tier, FrameIndex frame, PageIndex index);
  void DropCopy(PageIndex index, TierIndex tier, Departure departure = Departure::kOther);
  void DropStale(PageIndex index);
  void DropHeld(PageIndex index);
  bool RevokeHeld(TierIndex tier, const Claim& claim);
  bool Settle(PageIndex index, TierIndex tier, const Claim& claim);

 private:
  bool NeededByHead(TierIndex tier, const Claim& claim) const;
  void LeaveTransit(PageIndex index);

  Machine& m_;
};

}  // namespace sluice::core
