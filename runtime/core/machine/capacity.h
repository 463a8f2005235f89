#pragma once

#include <cstdint>

#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// New segments, and the tier that each of their pages is committed to (I6). Threads: externally
/// synchronised.
class Capacity {
 public:
  explicit Capacity(Machine& machine) : m_(machine) {}

  void On(const CreateSegment& event);
  bool HoldsPagesBelow(TierIndex tier) const;
  void CheckCommitments() const;
  FrameIndex OpFramesMax(TierIndex tier) const;

 private:
  void MakePage(PageIndex index, TierIndex lowest, const CreateSegment& event);
  std::uint64_t FramesLeft(TierIndex tier) const;
  FrameIndex WorkingFrames(TierIndex tier) const;
  PagesByTier CapacityFor(const CreateSegment& event) const;

  Machine& m_;
};

}  // namespace sluice::core
