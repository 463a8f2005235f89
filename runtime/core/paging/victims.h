#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Pages that may leave a tier for a claim, and the policy's choice among them. Threads: externally
/// synchronised.
class Victims {
 public:
  using Evictable = std::function<bool(PageIndex)>;

  explicit Victims(ResidencyMachine& machine) : m_(machine) {}

  /// Returns the policy's victim for the claim. Thousands of pages that a ticket lacks may ask one
  /// after the other while nothing changes. If none of their own copies is concerned, all get one
  /// answer. (An online policy may decide by the page that the room is for.)
  std::optional<PageIndex> VictimFor(TierIndex tier, const Claim& claim);
  /// Returns a victim when nothing moves: two pages of one ticket may each sit where the other is
  /// wanted. The one that arrives displaces the other, which comes back by another way.
  std::optional<PageIndex> VictimOnItsWay(TierIndex tier, const Claim& claim) const;
  /// Returns a victim that leaves for nothing. Only pages that are known to leave so are looked at,
  /// not thousands of others. All are looked at when nothing is in flight, so that this is the last
  /// resort.
  std::optional<PageIndex> VictimForNothing(TierIndex tier, const Claim& claim) const;
  /// Asks the policy for a victim that `evictable` accepts, to make room for `wanted`.
  std::optional<PageIndex> AskVictim(TierIndex tier,
                                     PageIndex wanted,
                                     const Evictable& evictable) const;
  /// Returns the policy's answer. A page that it may not name ends the program.
  std::optional<PageIndex> Checked(TierIndex tier,
                                   std::optional<PageIndex> victim,
                                   const Evictable& evictable) const;
  /// Returns whether the page may leave the tier for the claim.
  bool MayEvict(TierIndex tier, PageIndex index, const Claim& claim) const;
  /// Returns whether the page's copy in `tier` is needed for the very move that the claim is for.
  bool Moves(PageIndex index, TierIndex tier, const Claim& claim) const;
  /// Returns whether a waiting ticket up to `arrival` needs the page's copy in `tier`: it is where
  /// the ticket wants it, or the one that the way there starts from.
  bool WantedUpTo(const Page& p, TierIndex tier, std::uint64_t arrival) const;

 private:
  bool IsInserted(PageIndex index, TierIndex tier) const;
  bool LeavesForNothing(TierIndex tier, PageIndex index, const Claim& claim) const;

  ResidencyMachine& m_;
};

}  // namespace sluice::core
