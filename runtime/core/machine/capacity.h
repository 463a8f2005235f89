#pragma once

#include <cstdint>

#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// New segments, the tier that each of their pages is committed to (I6), and the room of ops.
/// Threads: externally synchronised.
class Capacity {
 public:
  explicit Capacity(ResidencyMachine& machine) : m_(machine) {}

  void On(const CreateSegment& event);
  /// Returns whether pages can be committed to a tier below this one.
  bool HoldsPagesBelow(TierIndex tier) const;
  /// Checks I6.
  void CheckCommitments() const;
  /// Returns the frames of the tier that one op may lease: the budget without transit frames and
  /// reservations.
  FrameIndex OpFramesMax(TierIndex tier) const;

 private:
  void MakePage(PageIndex index, TierIndex lowest, const CreateSegment& event);
  std::uint64_t FramesLeft(TierIndex tier) const;
  FrameIndex WorkingFrames(TierIndex tier) const;
  PagesByTier CapacityFor(const CreateSegment& event) const;

  ResidencyMachine& m_;
};

}  // namespace sluice::core
