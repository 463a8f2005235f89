#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Pages that may leave a tier for a claim, and the policy's choice among them. Threads: externally
/// synchronised.
class Victims {
 public:
  using Evictable = std::function<bool(PageIndex)>;

  explicit Victims(Machine& machine) : m_(machine) {}

  std::optional<PageIndex> VictimFor(TierIndex tier, const Claim& claim);
  std::optional<PageIndex> VictimOnItsWay(TierIndex tier, const Claim& claim) const;
  std::optional<PageIndex> VictimForNothing(TierIndex tier, const Claim& claim) const;
  std::optional<PageIndex> AskVictim(TierIndex tier,
                                     PageIndex wanted,
                                     const Evictable& evictable) const;
  /// Returns the policy's answer. A page that it may not name ends the program.
  std::optional<PageIndex> Checked(TierIndex tier,
                                   std::optional<PageIndex> victim,
                                   const Evictable& evictable) const;
  bool MayEvict(TierIndex tier, PageIndex index, const Claim& claim) const;
  bool Moves(PageIndex index, TierIndex tier, const Claim& claim) const;
  bool WantedUpTo(const Page& p, TierIndex tier, std::uint64_t arrival) const;

 private:
  bool IsInserted(PageIndex index, TierIndex tier) const;
  bool LeavesForNothing(TierIndex tier, PageIndex index, const Claim& claim) const;

  Machine& m_;
};

}  // namespace sluice::core
