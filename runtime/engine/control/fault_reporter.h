#pragma once

#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "runtime/engine/control/messages.h"
#include "runtime/engine/data/page_owners.h"
#include "runtime/engine/data/task_book.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/fault_log.h"
#include "runtime/engine/report/health_monitor.h"
#include "runtime/engine/report/logger.h"
#include "runtime/engine/report/repeated_failures.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Remembers why tasks failed, and tells of lost pages and of tiers that take none. A cause that
/// comes again is told once. Threads: the core thread only.
class FaultReporter {
 public:
  struct Parts {
    const PageOwners* owners = nullptr;
    const TierSet* tiers = nullptr;
    Logger* logger = nullptr;
    HealthMonitor* health = nullptr;
    EventListener* listener = nullptr;  ///< may be null
  };

  explicit FaultReporter(const Parts& parts) : parts_(parts) {}

  void NoteSuccess(const TaskBook::RunningTask& task);
  /// REQUIRES: the completion is that of the task, and names a failure.
  void NoteFailure(const Completion& completion, const TaskBook::RunningTask& task);
  void ForgetPages(PageRun run);

  void ReportLost(const core::LosePage& loss);
  void ReportFenced(const core::FenceTier& fence);
  /// Writes a line for each cause that was not told every time.
  void ReportRepeated();

  const FaultLog& log() const { return faults_; }

 private:
  void NoteLostSource(const Completion& completion, const TaskBook::RunningTask& task);
  void NoteFailedRefill(const absl::Status& status, const TaskBook::RunningTask& task);

  const Parts parts_;
  FaultLog faults_;
  RepeatedFailures repeated_;
};

}  // namespace sluice::engine
