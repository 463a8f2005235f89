#pragma once

#include <optional>

#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Looks ahead in the recorded iteration: next uses, prefetch within a window, and pages cleaned
/// before they have to leave. Threads: externally synchronised.
class Lookahead {
 public:
  explicit Lookahead(ResidencyMachine& machine) : m_(machine) {}

  void On(const PrefetchPages& event);
  /// Sets the next use of every page anew, as another schedule is followed or none. Goals end.
  void RefreshNextUses();
  /// Sets the page's next use. Update tells the policy of it.
  void SetNextUse(PageIndex index, Position from);
  /// Walks the recorded ops from the cursor on and fetches pages that they need in `tier`. For ops
  /// of faster tiers it stages pages that are below `tier`. It ends when frames or the window run
  /// out.
  void PrefetchInto(TierIndex tier);
  /// Writes the pages that are used last, while a link has room, so that later evictions are free.
  void CleanAhead(TierIndex tier);

 private:
  void Hint(PageIndex index, const Goal& goal, bool comes);
  bool FollowAdvice(TierIndex tier);
  bool WindowIsSmall(TierIndex tier, Position end) const;
  bool WantAhead(TierIndex tier, const PageRequest& request, Position position);
  std::optional<PageIndex> VictimToClean(TierIndex tier, Position horizon) const;

  ResidencyMachine& m_;
};

}  // namespace sluice::core
