#pragma once

#include "runtime/core/state/page.h"
#include "sluice/policy.h"

namespace sluice::core {

struct ResidencyMachine;

/// Facts of a page in a tier, and the policy's knowledge of them. Whatever changes a page calls
/// Update, which tells the policy the difference. Threads: externally synchronised.
class Facts {
 public:
  explicit Facts(ResidencyMachine& machine) : m_(machine) {}

  /// Returns whether a lease holds the page in the tier.
  bool PinnedAt(const Page& p, TierIndex tier) const;
  /// Tells the policy what has changed of the page, in every tier.
  void Update(PageIndex index);
  /// Tells the policy of one reference to the page in `tier`: a lease, or the source of a way up.
  void TellAccess(PageIndex index, TierIndex tier);
  /// Tells the policy that the page has left, or is about to.
  void TellDeparture(PageIndex index, TierIndex tier, Departure departure);
  /// Tells the policy that the page is no more.
  void TellFreed(PageIndex index);
  /// Tells the policy which page the next victim makes room for; kNoPage: none.
  void TellWant(TierIndex tier, PageIndex wanted) const;
  /// Tells the policy how many frames pages may have in the tier.
  void TellFrames(TierIndex tier);
  /// Returns whether nothing uses the page's frame in `tier`.
  bool IsIdle(const Page& p, TierIndex tier) const;
  /// Returns whether the page leaves the tier without a write, now or later: its content is dead,
  /// or valid in a lower tier. A doomed copy below counts only while there is nowhere else to go.
  bool FreeToLeave(const Page& p, TierIndex tier) const;
  /// Returns whether nothing is lost with the copy. If the only other copy is further up, that one
  /// has to come back later, over a link that may be the slower one. So this is the last resort.
  bool MayDrop(const Page& p, TierIndex tier) const;
  /// Returns the position at which the page's copy in this very tier is needed next.
  Position UseAt(const Page& p, TierIndex tier) const;
  /// Returns UseAt, as far as the policy may know it.
  Position UseKnown(const Page& p, TierIndex tier) const;

  /// Takes the page, which is a candidate, from the policy's choice. The copy is about to go.
  void Withdraw(PageIndex index, TierIndex tier);

 private:
  void NoteLossless(PageIndex index, TierIndex tier, bool lossless);
  PageFacts FactsOf(PageIndex index, TierIndex tier) const;
  void TellPolicy(PageIndex index, TierIndex tier);
  bool IsCandidate(const Page& p, TierIndex tier) const;

  ResidencyMachine& m_;
};

}  // namespace sluice::core
