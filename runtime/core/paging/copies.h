#pragma once

#include <vector>

#include "runtime/core/copy_place.h"
#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Copies of a page: where its bytes can be read, and copies in the last tier that may soon be
/// unreadable (doomed). Threads: externally synchronised.
class Copies {
 public:
  explicit Copies(Machine& machine) : m_(machine) {}

  void On(const AbandonCopies& event);
  void SetDoomedAside(PageIndex index);
  void RestoreDoomed(PageIndex index);
  std::vector<PageIndex> PagesOnlyIn(const std::vector<FrameIndex>& frames) const;
  NewestCopy FindNewest(PageIndex index, TierIndex first) const;

 private:
  Machine& m_;
};

}  // namespace sluice::core
