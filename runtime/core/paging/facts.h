#pragma once

#include "runtime/core/state/page.h"
#include "sluice/policy.h"

namespace sluice::core {

struct Machine;

/// What is true of a page in a tier, and the policy's knowledge of it. Whatever changes a page
/// calls UpdateFacts, which tells the policy the difference. Threads: externally synchronised.
class Facts {
 public:
  explicit Facts(Machine& machine) : m_(machine) {}

  bool PinnedAt(const Page& p, TierIndex tier) const;
  void UpdateFacts(PageIndex index);
  void NoteLossless(PageIndex index, TierIndex tier, bool lossless);
  void TellAccess(PageIndex index, TierIndex tier);
  void TellDeparture(PageIndex index, TierIndex tier, Departure departure);
  void TellFreed(PageIndex index);
  void TellWant(TierIndex tier, PageIndex wanted) const;
  void TellFrames(TierIndex tier);
  bool IsIdle(const Page& p, TierIndex tier) const;
  bool FreeToLeave(const Page& p, TierIndex tier) const;
  bool MayDrop(const Page& p, TierIndex tier) const;
  Position UseAt(const Page& p, TierIndex tier) const;
  Position UseKnown(const Page& p, TierIndex tier) const;

 private:
  PageFacts FactsOf(PageIndex index, TierIndex tier) const;
  void TellPolicy(PageIndex index, TierIndex tier);
  bool IsCandidate(const Page& p, TierIndex tier) const;

  Machine& m_;
};

}  // namespace sluice::core
