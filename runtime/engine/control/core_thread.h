#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/core.h"
#include "runtime/engine/api/tensor_table.h"
#include "runtime/engine/control/background_planner.h"
#include "runtime/engine/control/fault_reporter.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/control/request_book.h"
#include "runtime/engine/control/stall_reporter.h"
#include "runtime/engine/control/ticket_book.h"
#include "runtime/engine/data/page_owners.h"
#include "runtime/engine/data/task_book.h"
#include "runtime/engine/mover/data_mover.h"
#include "runtime/engine/report/event_log.h"
#include "runtime/engine/report/health_monitor.h"

namespace sluice::engine {

/// Counters of the core at one moment.
struct CoreSnapshot {
  core::CoreCounters counters;
  std::vector<core::TierCounters> tiers;
  PlanStats plans;
};

/// The only caller of the core: takes messages, feeds events, carries out actions. It never touches
/// page bytes and never waits for I/O.
/// Threads: Start and Join from the owner; Snapshot from the core thread, or after Join.
class CoreThread {
 public:
  struct Parts {
    std::unique_ptr<core::Core> core;
    Mailbox* mailbox = nullptr;
    TensorTable* table = nullptr;
    const TierSet* tiers = nullptr;
    DataMover* mover = nullptr;
    Logger* logger = nullptr;
    HealthMonitor* health = nullptr;
    EventListener* listener = nullptr;  ///< may be null
    EventLog* log = nullptr;
    BackgroundPlanner* planner = nullptr;  ///< null unless the policy follows plans
    std::string custom_policy;             ///< name of the program's own policy, if it has one
    double stall_seconds = 10;
    std::vector<int> cpus;
    std::vector<FallbackEvent> fallbacks;  ///< announced when the thread starts
  };

  explicit CoreThread(Parts parts);

  /// Errors: ResourceExhausted (the thread cannot be started); there is nothing to join then.
  absl::Status Start();
  /// Waits for the thread. It returns after a StopNotice once no task is in flight.
  void Join() { thread_.join(); }
  CoreSnapshot Snapshot() const;
  /// Tells the log and the listener. Core thread only.
  void Announce(const FallbackEvent& fallback);

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  void AnnounceFallbacks();
  void ReportForgotten();
  static void DumpHistory(void* self, const char* message);

  // Messages.
  void On(AcquireRequest& request);
  void On(CreateRequest& request);
  void On(FreeRequest& request);
  void On(DiscardRequest& request);
  void On(PrefetchRequest& request);
  void On(ReserveRequest& request);
  void On(BudgetRequest& request);
  void On(EventRequest& request);
  void On(CallRequest& request);
  void On(Completion& completion);
  void On(ReleaseNotice& notice);
  void On(CancelNotice& notice);
  void On(ReleaseFramesNotice& notice);
  void On(DriveFencedNotice& notice);
  void On(PlanNotice& notice);
  void On(StopNotice& notice);
  void FeedReleases();
  void NameLeakedLeases(const TicketBook::Entry& entry);

  // Events and actions. The requests answer some actions, the core thread performs the others.
  void Feed(core::Event event);
  void CarryOut(core::Action* action);
  void Perform(const core::StartCopy& action);
  void Perform(const core::HastenCopy& action);
  void Perform(const core::StartFill& action);
  void Perform(const core::StartMap& action);
  void Perform(const core::DropFrame& action);
  void Perform(core::GrantTicket& action);
  void Perform(const core::FailTicket& action);
  void Perform(const core::LosePage& action);
  void Perform(const core::FenceTier& action);
  void Perform(const core::PagesFreed& action);

  const Parts parts_;
  std::thread thread_;
  bool stopping_ = false;
  PageOwners owners_;
  TicketBook tickets_;
  TaskBook tasks_;
  StallReporter stalls_;
  FaultReporter faults_;
  RequestBook requests_;
  core::Release releases_;           ///< releases gathered and not fed yet
  std::deque<core::Event> waiting_;  ///< events that actions gave rise to
  bool feeding_ = false;
  bool dump_wanted_ = false;
  bool told_dropped_ = false;
  bool told_too_long_ = false;
  std::vector<core::Action> actions_;
};

}  // namespace sluice::engine
