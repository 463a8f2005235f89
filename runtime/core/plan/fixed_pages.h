#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/plan/plan.h"
#include "runtime/core/types.h"

namespace sluice::core {

struct ResidencyMachine;

/// Pages that stay in a tier whatever a plan says: those that a lease has held since before the
/// iteration began, and written ones that may reach no lower tier. Counts are those of the
/// iteration that has ended last. Threads: externally synchronised.
class FixedPages {
 public:
  explicit FixedPages(const ResidencyMachine& machine) : m_(machine) {}

  /// Notes that an iteration begins. `ends`: another one was running, and so ends.
  void BeginIteration(bool ends);
  void EndIteration() { ended_begun_at_ = begun_at_; }
  /// Returns the pages of each tier, whether a plan has them or not.
  PagesByTier Count() const;
  /// Sets each item's lowest tier, and takes pages that no item has out of the frames.
  void LeaveOut(PlanInput* input) const;

 private:
  struct Held {
    PageIndex page = 0;
    TierIndex tier = 0;
    friend auto operator<=>(const Held&, const Held&) = default;
  };

  std::vector<Held> FindHeld() const;
  /// `writes`: an op of the plan writes the page.
  TierIndex LowestOf(PageIndex page, bool writes, const std::vector<Held>& held) const;
  TierIndex LowestUnlessHeld(PageIndex page, bool writes) const;

  const ResidencyMachine& m_;
  /// Arrival of the first ticket of the iteration that has begun last, and of the one that has
  /// ended last.
  std::uint64_t begun_at_ = 0;
  std::uint64_t ended_begun_at_ = 0;
};

}  // namespace sluice::core
