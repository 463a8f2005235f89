#pragma once

#include <chrono>

#include "runtime/engine/control/ticket_book.h"
#include "runtime/engine/data/page_owners.h"
#include "runtime/engine/data/task_book.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/health_monitor.h"
#include "runtime/engine/report/logger.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Tells of tickets that wait and of tasks that run for too long, and when to look for them again.
/// Threads: the core thread only.
class StallReporter {
 public:
  using Clock = std::chrono::steady_clock;

  struct Parts {
    TicketBook* tickets = nullptr;
    TaskBook* tasks = nullptr;
    const PageOwners* owners = nullptr;
    const TierSet* tiers = nullptr;
    Logger* logger = nullptr;
    HealthMonitor* health = nullptr;
    EventListener* listener = nullptr;  ///< may be null
  };

  explicit StallReporter(const Parts& parts) : parts_(parts) {}

  /// Time of the next look; max when no look is needed.
  Clock::time_point next_look() const { return next_look_; }
  /// Looks for stalls if the time of a look has come, and tells the log and the listener.
  void Report(Clock::time_point now);

 private:
  Clock::time_point NextLook(Clock::time_point now) const;
  void ReportTickets(Clock::time_point now);
  void ReportTasks(Clock::time_point now);

  const Parts parts_;
  Clock::time_point next_look_ = Clock::time_point::max();
};

}  // namespace sluice::engine
