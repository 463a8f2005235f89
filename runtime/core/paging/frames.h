#pragma once

#include <optional>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Frames of the tiers: taken, held for a page-in, lent as transit frames, given back. Threads:
/// externally synchronised.
class Frames {
 public:
  explicit Frames(ResidencyMachine& machine) : m_(machine) {}

  /// Takes a frame for residency, making room if need be. Nobody overtakes an earlier claim that
  /// went away empty-handed (I8), but for a page in a transit frame that the earlier one may need
  /// (I9).
  std::optional<FrameIndex> Take(TierIndex tier, const Claim& claim);
  /// Returns whether a transit frame of the tier is free for the direction.
  bool TransitFree(TierIndex tier, LinkDirection direction) const;
  /// Takes a transit frame for the page; none: all are taken.
  std::optional<FrameIndex> TakeTransit(TierIndex tier, LinkDirection direction, PageIndex index);
  /// Returns the frames of the tier that residency never gets.
  FrameIndex TransitFrames(TierIndex tier) const;
  /// Returns the transit frames that are not in use.
  FrameIndex TransitReserve(TierIndex tier) const;
  /// Takes a free frame: the page's home, if homes are chosen and it is free. Else the frame that
  /// the page was mapped to, as it may be mapped to it still.
  FrameIndex TakeFor(TierIndex tier, PageIndex index);
  /// Notes that the page's address is mapped to the frame, or is about to be; kNoFrame: to none any
  /// more.
  void SetMappedTo(PageIndex index, TierIndex tier, FrameIndex frame);
  /// Gives the page's frame back. Free frames are ordered by when a page comes back to them.
  void Give(TierIndex tier, FrameIndex frame, PageIndex index);
  /// Drops the copy of the page in the tier, and frees its frame at once. REQUIRES: no lease and
  /// no task uses it.
  void DropCopy(PageIndex index, TierIndex tier, Departure departure = Departure::kOther);
  /// Frees the slot of an older generation, if the page has one.
  void DropStale(PageIndex index);
  /// Frees the frame that is held for the page, if there is one.
  void DropHeld(PageIndex index);
  /// Takes a frame back that is held for a page on its way up, when no ticket up to the claim's
  /// waits for that page: lookahead never keeps a ticket from what it needs (I8).
  bool RevokeHeld(TierIndex tier, const Claim& claim);
  /// Counts that the copy is in a transit frame of the tier no longer.
  void EndTransit(const PageCopy& copy, TierIndex tier);
  /// Turns a transit copy into a resident one. False: there is no room.
  bool Settle(PageIndex index, TierIndex tier, const Claim& claim);

 private:
  bool NeededByHead(TierIndex tier, const Claim& claim) const;
  void LeaveTransit(PageIndex index);

  ResidencyMachine& m_;
};

}  // namespace sluice::core
