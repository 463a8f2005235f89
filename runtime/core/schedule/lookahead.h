#pragma once

#include <optional>

#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Looks ahead in the recorded iteration: next uses, prefetch within a window, and pages cleaned
/// before they have to leave. Threads: externally synchronised.
class Lookahead {
 public:
  explicit Lookahead(Machine& machine) : m_(machine) {}

  void On(const PrefetchPages& event);
  void RefreshNextUses();
  void SetNextUse(PageIndex index, Position from);
  void PrefetchInto(TierIndex tier);
  void CleanAhead(TierIndex tier);

 private:
  void Hint(PageIndex index, const Goal& goal, bool comes);
  bool FollowAdvice(TierIndex tier);
  bool WindowIsSmall(TierIndex tier, Position end) const;
  bool WantAhead(TierIndex tier, const PageRequest& request, Position position);
  std::optional<PageIndex> VictimToClean(TierIndex tier, Position horizon) const;

  Machine& m_;
};

}  // namespace sluice::core
