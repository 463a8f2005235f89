#pragma once

#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "runtime/core/core.h"
#include "runtime/engine/control/core_thread.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/data/data_mover.h"
#include "runtime/engine/report/health_monitor.h"
#include "runtime/engine/setup/backends.h"
#include "sluice/tier.h"
#include "sluice/units.h"

namespace sluice::engine {

/// Budgets of the tiers, and their changes while the runtime lives. Threads: any, but the core's.
class TierBudgets {
 public:
  struct Parts {
    Backends* backends = nullptr;
    DataMover* mover = nullptr;
    Mailbox* mailbox = nullptr;
    HealthMonitor* health = nullptr;
    CoreThread* core_thread = nullptr;
  };

  /// `frames`: budgets at the start, by tier.
  TierBudgets(const Parts& parts, std::vector<core::FrameIndex> frames);

  core::FrameIndex Of(core::TierIndex tier) const;
  /// As Runtime::SetBudget.
  absl::Status Set(TierId tier, Bytes bytes);
  /// Each kind once for a tier: memory that was taken may lack something, at once or later.
  void AnnounceFallbacks(core::TierIndex tier);

 private:
  absl::Status CheckWanted(core::TierIndex tier, Bytes bytes) const;
  absl::Status ResizeNow(core::TierIndex tier, core::FrameIndex frames);
  absl::Status TellCore(core::TierIndex tier, core::FrameIndex frames);
  /// Takes memory for a larger budget, and gives it back where it lacks what the options require.
  absl::Status TakeMemory(core::TierIndex tier, core::FrameIndex frames);
  /// After a change that failed. False when the frames could not be had back.
  bool Undo(core::TierIndex tier, core::FrameIndex before);

  const Parts parts_;
  const TierSet& tiers_;
  base::Mutex change_mutex_;  ///< held for the whole of a change: one at a time
  mutable base::Mutex mutex_;
  std::vector<core::FrameIndex> frames_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
