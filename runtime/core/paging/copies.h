#pragma once

#include <optional>
#include <vector>

#include "runtime/core/copy_place.h"
#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Copies of a page: where its bytes can be read, and copies in the last tier that may soon be
/// unreadable (doomed). Threads: externally synchronised.
class Copies {
 public:
  explicit Copies(ResidencyMachine& machine) : m_(machine) {}

  void On(const AbandonCopies& event);
  /// Keeps the doomed copy's slot as the stale one, to be restored if the new copy is not written.
  void SetDoomedAside(PageIndex index);
  /// Restores the doomed copy, as the one that was to replace it was not written.
  void RestoreDoomed(PageIndex index);
  /// Returns the pages whose content is in these frames of the last tier alone.
  std::vector<PageIndex> PagesOnlyIn(const std::vector<FrameIndex>& frames) const;
  /// Returns where the newest bytes of a page are, in tier `first` or else in another.
  NewestCopy FindNewest(PageIndex index, TierIndex first) const;
  /// Makes the copy in `tier` the page's only one, under a write lease.
  void PinForWrite(PageIndex index, TierIndex tier);
  /// Returns the tier of the valid copy with the fewest hops to `target`; of two, the faster tier.
  std::optional<TierIndex> BestSource(const Page& p, TierIndex target) const;

 private:
  ResidencyMachine& m_;
};

}  // namespace sluice::core
