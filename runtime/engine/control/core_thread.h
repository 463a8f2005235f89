#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/core/core.h"
#include "runtime/engine/api/tensor_table.h"
#include "runtime/engine/control/background_planner.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/control/ticket_book.h"
#include "runtime/engine/data/data_mover.h"
#include "runtime/engine/data/page_owners.h"
#include "runtime/engine/data/task_book.h"
#include "runtime/engine/report/event_log.h"
#include "runtime/engine/report/fault_log.h"
#include "runtime/engine/report/health_monitor.h"
#include "runtime/engine/report/repeated_failures.h"

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
  void TellWaits();
  void ReportStalled();
  void ReportStalledTickets(Clock::time_point now);
  Clock::time_point NextLook(Clock::time_point now) const;
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
  void NoteSuccess(const TaskBook::RunningTask& task);
  void NoteFailure(const Completion& completion, const TaskBook::RunningTask& task);
  void NoteLostSource(const Completion& completion, const TaskBook::RunningTask& task);
  void NoteFailedRefill(const absl::Status& status, const TaskBook::RunningTask& task);
  void FeedReleases();
  void FailReplies();
  void NameLeakedLeases(const TicketBook::Entry& entry);

  // Events and actions.
  void Feed(core::Event event);
  void Perform(const core::StartCopy& action);
  void Perform(const core::HastenCopy& action);
  void Perform(const core::StartFill& action);
  void Perform(const core::StartMap& action);
  void Perform(const core::DropFrame& action);
  void Perform(core::GrantTicket& action);
  void Perform(const core::FailTicket& action);
  void Perform(const core::LosePage& action);
  void Perform(const core::FenceTier& action);
  void Perform(const core::SegmentCreated& action);
  void Perform(const core::SegmentRefused& action);
  void Perform(const core::PagesFreed& action);
  void Perform(core::FramesReserved& action);
  void Perform(const core::ReservationRefused& action);
  void Perform(const core::BudgetSet& action);
  void Perform(const core::BudgetRefused& action);

  const Parts parts_;
  std::thread thread_;
  bool stopping_ = false;
  PageOwners owners_;
  TicketBook tickets_;
  TaskBook tasks_;
  Clock::time_point next_look_ =
      Clock::time_point::max();  ///< time of the next search for slow tasks
  FaultLog faults_;
  RepeatedFailures repeated_;
  core::Release releases_;           ///< releases gathered and not fed yet
  std::deque<core::Event> waiting_;  ///< events that actions gave rise to
  bool feeding_ = false;
  bool dump_wanted_ = false;
  bool told_dropped_ = false;
  bool told_too_long_ = false;
  std::vector<core::Action> actions_;
  std::vector<core::TicketWait> waits_;  ///< scratch of TellWaits, kept for its memory
  std::unordered_map<core::SegmentIndex, CreateRequest> creates_;
  std::unordered_map<core::ReservationNumber, ReserveRequest> reservations_;
  core::ReservationNumber next_reservation_ = 1;
  std::unordered_map<core::TierIndex, BudgetRequest> budgets_;
};

}  // namespace sluice::engine
