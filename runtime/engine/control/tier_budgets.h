#pragma once

#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "runtime/core/core.h"
#include "runtime/engine/control/core_thread.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/mover/data_mover.h"
#include "runtime/engine/report/health_monitor.h"
#include "runtime/engine/setup/backends.h"
#include "sluice/tier.h"
#include "sluice/units.h"

namespace sluice::engine {

/// Budgets of the tiers, and their changes while the runtime lives. Threads: any but the core
/// thread.
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
  /// Implements Runtime::SetBudget.
  absl::Status Set(TierId tier, Bytes bytes);
  /// Announces what the tier's memory lacks, each kind once. Memory may lack something at once or
  /// later.
  void AnnounceFallbacks(core::TierIndex tier);

 private:
  absl::Status CheckWanted(core::TierIndex tier, Bytes bytes) const;
  absl::Status ResizeNow(core::TierIndex tier, core::FrameIndex frames);
  absl::Status TellCore(core::TierIndex tier, core::FrameIndex frames);
  /// Takes memory for a larger budget. Gives it back if it lacks what the options require.
  absl::Status TakeMemory(core::TierIndex tier, core::FrameIndex frames);
  /// Undoes a change that failed. False: the system did not return the frames.
  bool Undo(core::TierIndex tier, core::FrameIndex before);

  const Parts parts_;
  const TierSet& tiers_;
  base::Mutex change_mutex_;  ///< held during a whole change, so that changes come one at a time
  mutable base::Mutex mutex_;
  std::vector<core::FrameIndex> frames_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
