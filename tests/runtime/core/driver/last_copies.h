#pragma once

#include <set>
#include <vector>

#include "runtime/core/types.h"
#include "tests/runtime/core/driver/shadow_model.h"
#include "tests/runtime/core/driver/sim_frames.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::core {

/// Check of I2: no page loses the last copy of its content, and a page that is called lost has lost
/// it. Frames may be abandoned, as their content may soon be unreadable. The last copy outside of
/// them must then stay, too.
class LastCopies {
 public:
  LastCopies(const SimFrames* frames, const ShadowModel* shadow, Verdict* verdict)
      : frames_(frames), shadow_(shadow), verdict_(verdict) {}

  /// Notes that the page is about to lose this frame.
  void NoteDrop(PageIndex page, SimFrames::TierFrame place);
  /// Notes that a task could not read the page's bytes.
  void NoteDoubt(PageIndex page) { doubtful_.insert(page); }
  /// Notes that the core has named these pages as left in abandoned frames only.
  void NoteNamed(const std::vector<PageIndex>& pages) { named_.insert(pages.begin(), pages.end()); }
  /// Notes that a tier has refused pages. Abandoned frames are then as good as others, until the
  /// last tier takes a page.
  void NoteFence() { fence_ = true; }
  /// Notes that the last tier has taken a page.
  void NoteFenceOver() { fence_ = false; }
  void ForgetPage(PageIndex page) { named_.erase(page); }

  /// Checks the pages that lost a frame since the last call.
  void CheckDrops();
  /// Checks a report that the page is lost: a source of it was lost, and no frame holds its bytes.
  void CheckLost(PageIndex page);

 private:
  bool HoldsContent(SimFrames::TierFrame place) const;
  bool Reachable(PageIndex page) const;
  bool OnlyAbandoned(PageIndex page) const;

  const SimFrames* frames_;
  const ShadowModel* shadow_;
  Verdict* verdict_;
  std::set<PageIndex> touched_;  ///< pages that lost a frame and were not checked
  std::set<PageIndex> named_;
  bool fence_ = false;
  std::set<PageIndex> doubtful_;
};

}  // namespace sluice::core
