#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "runtime/core/core.h"
#include "runtime/core/machine/frame_pool.h"
#include "runtime/core/machine/goal_queue.h"
#include "runtime/core/machine/mapped_pages.h"
#include "runtime/core/machine/page.h"
#include "runtime/core/plan/home_frames.h"
#include "runtime/core/schedule/schedule_book.h"

namespace sluice::core {

/// The state machine. One file per concern, in this folder unless it is named:
///   core.cc      dispatch, segments, counters
///   tickets.cc   acquire, locks, grant, release, cancel, discard
///   movement.cc  tasks: start, complete, fail
///   frames.cc    frames, transit, news for the policy
///   homes.cc     frames that pages come back to
///   eviction.cc  room: victims and their targets
///   abandoned.cc places where bytes can be read, and copies that may soon be unreadable
///   arrivals.cc  leases of pages that are under way
///   hasten.cc    page-outs that somebody has come to wait for
///   need_pass.cc one pass over what waiting tickets need
///   ../plan/planned.cc          follows a plan
///   ../schedule/lookahead.cc    next uses, goals, prefetch, cleaning
///   pump.cc      work after every event: tickets that may go on; stuck detection
///   capacity.cc  tiers that new pages may be committed to
///   budget.cc    reservations and budget changes
///   waits.cc     causes that tickets wait for
///   invariants.cc
class Core::Impl {
 public:
  explicit Impl(const CoreOptions& options);

  void Handle(std::span<const Event> events, std::vector<Action>* actions);
  const CoreCounters& counters();
  TierCounters tier_counters(TierIndex tier) const;
  FrameIndex OpFramesMax(TierIndex tier) const;
  std::uint32_t tasks_in_flight() const { return static_cast<std::uint32_t>(tasks_.size()); }
  std::uint32_t pinned_pages() const { return pinned_pages_; }
  void Waits(std::vector<TicketWait>* waits) const;
  std::vector<PageIndex> PagesOnlyIn(const std::vector<FrameIndex>& frames) const;
  NewestCopy FindNewest(PageIndex index, TierIndex first) const;
  void CheckInvariants() const;
  void CheckQueues() const;
  void CheckAnswers() const;
  PlanInput RecordedPlan(KeyIndex key) const;
  std::vector<RecordedStep> RecordedSteps(KeyIndex key) const { return book_.Steps(key); }
  std::uint64_t RecordingOf(KeyIndex key) const { return book_.FingerprintOf(key); }
  bool HasPlan(KeyIndex key) const { return plans_.contains(key); }

 private:
  enum class Progress { kReady, kInFlight, kBlocked };
  struct LinkLoad {
    std::array<std::uint32_t, 2> in_flight{};
  };
  /// The policy's last victim. The policy would name it again as long as nothing changes.
  struct Answer {
    std::uint64_t arrival = 0;  ///< number of the claim in the order of arrival
    std::uint64_t changes = 0;  ///< value of changes_ at the answer, which holds until it changes
    std::optional<PageIndex> victim;
  };
  /// Pages that are due to leave, or to be cleaned, as planned, unless they are used before.
  struct DueLeave {
    PlannedLeave leave;
    Position next_use = 0;
  };
  struct TierState {
    explicit TierState(const TierConfig& config)
        : keeps_mappings(config.keeps_mappings),
          pool(config.frames, keeps_mappings ? FrameOrder::kByReturn : FrameOrder::kByAge),
          mapped(keeps_mappings ? config.frames : 0) {}
    bool keeps_mappings;
    FramePool pool;
    MappedPages mapped;  ///< pages by the frame they are mapped to; empty unless they are kept
    HomeFrames homes;    ///< homes of the plan's pages; none unless mappings are kept
    MappingCounters mappings;
    std::uint64_t committed = 0;  ///< pages whose lowest tier this is
    std::uint32_t reserved = 0;   ///< frames of granted reservations
    std::array<std::uint32_t, 2> transit_used{};
    std::uint32_t leaving = 0;          ///< evictions in flight
    std::uint32_t cleaning = 0;         ///< cleaning page-outs in flight
    std::uint32_t unhurried = 0;        ///< page-outs in flight that nobody is known to wait for
    std::uint32_t candidates_free = 0;  ///< evictable pages that leave for free
    /// Pages that may be dropped: those free to leave, and others.
    std::vector<PageIndex> lossless;
    std::array<std::uint32_t, kTensorKindCount> by_kind{};
    std::uint32_t write_failures = 0;  ///< failures of copies down to here, in a row
    bool fenced = false;
    std::uint64_t fenced_before = 0;  ///< first ticket's arrival since the tier was fenced
    Position cursor = 0;              ///< prefetch: steps before this position are seen to
    std::size_t cursor_request = 0;
    std::deque<DueLeave> leaves;     ///< leaves that are due; the first is perhaps done in part
    std::deque<DueLeave> cleans;     ///< cleanings that are due, of pages that stay
    std::deque<DueLeave> let_go;     ///< pages that were to leave and are clean: there until needed
    std::set<PageIndex> brought_up;  ///< pages brought up from this tier while a plan was followed
    Answer answer;                   ///< last answer to a ticket
    // Members of one pump:
    /// Arrival of the first ticket that wanted a frame and got none.
    std::uint64_t starved_arrival = UINT64_MAX;
    bool starved = false;
    bool ahead_blocked = false;  ///< true if a goal waits: later ones must not overtake it
    std::uint32_t deficit = 0;   ///< frames wanted in vain
    bool no_victim = false;
    /// Whether the policy's advice has been taken, per event.
    bool advised = false;
    std::optional<FrameIndex> budget_target;  ///< target of a SetBudget without an answer yet
    FrameIndex budget_before = 0;
  };
  /// A frame that a ticket wants and did not get in this pump.
  struct Shortage {
    TierIndex tier = 0;
    Claim claim;
    bool no_victim = false;  ///< true if no page of the tier can be made to leave
  };
  struct ReservedFrames {
    ReservationNumber number = 0;
    TierIndex tier = 0;
    std::uint32_t frames_wanted = 0;
    std::vector<FrameIndex> frames;
  };

  /// An op with leases out.
  struct Holder {
    LaneIndex lane = 0;
    std::uint32_t tickets = 0;
  };

  // core.cc
  void On(const CreateSegment& event);
  void MakePage(PageIndex index, TierIndex lowest, const CreateSegment& event);
  void On(const BeginIteration& event);
  void On(const EndIteration& event);
  Page& page(PageIndex index) { return pages_[index]; }
  void Emit(Action action) {
    ++changes_;
    actions_->push_back(std::move(action));
  }
  TierIndex last_tier() const { return static_cast<TierIndex>(tiers_.size() - 1); }
  TierIndex file_tier() const { return static_cast<TierIndex>(tiers_.size() - 2); }

  // tickets.cc
  void On(const Acquire& event);
  void On(const Cancel& event);
  void On(const Release& event);
  void On(const DiscardPages& event);
  void On(const FreePages& event);
  bool RefuseTooLarge(const Acquire& event);
  bool RefuseLost(const Acquire& event);
  void QueueNeeds(std::unique_ptr<Ticket> ticket);
  void Kill(TicketKind kind, PageIndex first_page, std::uint32_t pages);
  void RefreshLocks(PageIndex index);
  void MarkReady(Need& need, bool ready);
  bool IsReady(const Need& need) const;
  void Recheck(PageIndex index);
  void KillContent(PageIndex index);
  bool FinishKill(PageIndex index);
  void Grant(Ticket& ticket);
  void PinForWrite(PageIndex index, TierIndex tier);
  void FailTicketWith(Ticket& ticket, FailTicket failure);
  void Dequeue(Ticket& ticket);
  void NoteHead();
  void SetHeadWants(const Ticket& ticket, bool wants);
  void Forget(TicketNumber number);
  void CountPrefetch(Page& p, TierIndex tier, bool ready);

  // movement.cc
  void On(const TaskDone& event);
  void On(const TaskFailed& event);
  Progress Advance(PageIndex index, const Goal& want, const Claim& claim);
  Progress AdvanceResident(PageIndex index, const Goal& want, const Claim& claim);
  Progress AdvanceWithoutSource(PageIndex index, const Goal& want, const Claim& claim);
  std::optional<FrameIndex> TakeHopFrame(PageIndex index,
                                         TierIndex hop,
                                         LinkDirection direction,
                                         const Goal& want,
                                         const Claim& claim);
  Progress StartHop(PageIndex index, TierIndex source, const Goal& want, const Claim& claim);
  Progress StartFillAt(
      PageIndex index, TierIndex tier, FillKind kind, const Goal& want, const Claim& claim);
  std::optional<TierIndex> BestSource(const Page& p, TierIndex target) const;
  void StartCopyTask(PageIndex index, Task task);
  void FinishMap(const Task& task);
  void FailWaiting(PageIndex index, TicketFailure reason, TierIndex tier);
  TaskNumber AddTask(const Task& task);
  Task TakeTask(TaskNumber number);
  void FinishCopy(const Task& task);
  void LeaveSource(PageIndex index, TierIndex source);
  void FinishFill(const Task& task);
  void Arrive(PageIndex index, const Task& task, CopyState state);
  bool MakesAgain(const Task& task, FailureKind kind);
  bool KeepsRefused(Page& p);
  void AbandonTarget(const Task& task);
  void LoseSource(PageIndex index, TierIndex source);
  void LoseContent(PageIndex index, TierIndex tier);
  void NoteWriteFailure(TierIndex tier);
  void LiftFence(TierState* tier);
  void NoteBringFailure(const Task& task);
  LinkLoad& link(TierIndex a, TierIndex b) { return links_[a < b ? a : b]; }
  bool LinkFull(TierIndex source, TierIndex target, Purpose purpose);

  // arrivals.cc
  void On(const TaskUnderWay& event);
  void On(const GrantUnderWay& event);
  void ReleaseLate(PageIndex index);
  void LoseWritten(PageIndex index, TierIndex tier);

  // frames.cc
  std::optional<FrameIndex> TakeFrame(TierIndex tier, const Claim& claim);
  bool NeededByHead(TierIndex tier, const Claim& claim) const;
  bool TransitFree(TierIndex tier, LinkDirection direction) const;
  std::optional<FrameIndex> TakeTransit(TierIndex tier, LinkDirection direction, PageIndex index);
  FrameIndex TransitFrames(TierIndex tier) const;
  FrameIndex TransitReserve(TierIndex tier) const;
  FrameIndex TakeFrameFor(TierIndex tier, PageIndex index);
  void SetMappedTo(PageIndex index, TierIndex tier, FrameIndex frame);
  void GiveFrame(TierIndex tier, FrameIndex frame, PageIndex index);
  void DropCopy(PageIndex index, TierIndex tier, Departure departure = Departure::kOther);
  void DropStale(PageIndex index);
  void DropHeld(PageIndex index);
  void LeaveTransit(PageIndex index);
  bool RevokeHeld(TierIndex tier, const Claim& claim);
  bool Settle(PageIndex index, TierIndex tier, const Claim& claim);
  bool PinnedAt(const Page& p, TierIndex tier) const;
  void UpdateFacts(PageIndex index);
  PageFacts FactsOf(PageIndex index, TierIndex tier) const;
  void TellPolicy(PageIndex index, TierIndex tier);
  void NoteLossless(PageIndex index, TierIndex tier, bool lossless);
  void TellAccess(PageIndex index, TierIndex tier);
  void TellDeparture(PageIndex index, TierIndex tier, Departure departure);
  void TellFreed(PageIndex index);
  void TellWant(TierIndex tier, PageIndex wanted) const;
  void TellFrames(TierIndex tier);
  bool IsIdle(const Page& p, TierIndex tier) const;
  bool IsCandidate(const Page& p, TierIndex tier) const;
  bool FreeToLeave(const Page& p, TierIndex tier) const;
  bool MayDrop(const Page& p, TierIndex tier) const;
  Position UseAt(const Page& p, TierIndex tier) const;
  Position UseKnown(const Page& p, TierIndex tier) const;

  // eviction.cc
  bool EnsureRoom(TierIndex tier, const Claim& claim);
  bool MakeRoom(TierIndex tier, const Claim& claim);
  bool NothingCanLeave(TierIndex tier, const Claim& claim);
  std::optional<PageIndex> VictimFor(TierIndex tier, const Claim& claim);
  template <typename Evictable>
  std::optional<PageIndex> AskVictim(TierIndex tier, PageIndex wanted, Evictable evictable) const {
    TellWant(tier, wanted);
    return Checked(tier, options_.policy->Victim(tier, evictable), evictable);
  }
  template <typename Evictable>
  std::optional<PageIndex> Checked(TierIndex tier,
                                   std::optional<PageIndex> victim,
                                   Evictable evictable) const {
    SLUICE_CHECK(!victim.has_value() || (IsInserted(*victim, tier) && evictable(*victim)),
                 "Policy::Victim names an inserted page that `evictable` accepts");
    return victim;
  }
  bool IsInserted(PageIndex index, TierIndex tier) const {
    return index < pages_.size() && pages_[index].copies[tier].candidate;
  }
  std::optional<PageIndex> VictimOnItsWay(TierIndex tier, const Claim& claim) const;
  bool MakeRoomByOtherVictim(TierIndex tier, const Claim& claim);
  std::optional<PageIndex> VictimForNothing(TierIndex tier, const Claim& claim) const;
  bool LeavesForNothing(TierIndex tier, PageIndex index, const Claim& claim) const;
  bool Restless() const;
  bool GivesWay(const Claim& claim) const;
  bool MayEvict(TierIndex tier, PageIndex index, const Claim& claim) const;
  bool Moves(PageIndex index, TierIndex tier, const Claim& claim) const;
  std::optional<FrameIndex> TakeBelow(TierIndex tier, PageIndex index, const Claim& claim);
  bool StartEviction(TierIndex tier, PageIndex index, const Claim& claim);
  std::optional<FrameIndex> TakeForEviction(TierIndex tier, PageIndex index, const Claim& claim);
  bool MoverMakesWay(TierIndex tier, const Claim& claim) const;
  void EvictFree(TierIndex tier, PageIndex index, const Claim& claim);
  bool WantedUpTo(const Page& p, TierIndex tier, std::uint64_t arrival) const;

  // hasten.cc
  void NoteShortage(TierIndex tier, const Claim& claim);
  void HastenForWriter(PageIndex index);
  void HastenForRoom();
  void HastenForRoomIn(TierIndex tier);
  bool MakesRoom(const Task& task, const Shortage& shortage) const;
  void Hasten(TaskNumber number);

  // waits.cc
  bool LacksRoom(const Ticket& ticket) const;
  bool LacksRoom(const Need& need) const;
  bool RoomComes(TierIndex tier) const;
  bool HasPageOnItsWayOut(const Ticket& ticket) const;

  // planned.cc
  void On(const AdoptPlan& event);
  void FollowPlan(KeyIndex key, bool moved);
  void LeavePlan();
  void DropPlans();
  std::size_t PlannedStep(Position position) const;
  void TakePlannedStep(Position position);
  void EndPlannedStep(Position position);
  void FetchPlanned(const PlannedFetch& fetch, Position position);
  void StayPlanned(PageIndex index, TierIndex tier, Position position);
  void AddLeave(const DueLeave& due);
  void ContinueLeaves();
  bool ContinueLeaves(std::deque<DueLeave>* due);
  bool IsDue(const DueLeave& due, PageIndex index) const;
  bool LeavePlanned(const DueLeave& due);
  void LetGo(PageIndex index, const DueLeave& due);
  bool IsLetGo(TierIndex tier, const DueLeave& due) const;
  bool DropLetGo(TierIndex tier, const Claim& claim);
  bool DropBroughtUp(TierIndex tier, const Claim& claim);
  bool IsAboveToo(const Page& p, TierIndex tier) const;
  bool IsComing(const Page& p, TierIndex tier) const;
  bool FollowsPlan() const { return plan_ != nullptr; }
  bool SavesTraffic() const { return FollowsPlan() && options_.objective == Objective::kTraffic; }
  bool LeavesMakeRoom(TierIndex tier) const;
  bool IsKept(PageIndex index, TierIndex tier) const;
  bool IsToBeKeptBelow(PageIndex index, TierIndex tier) const;

  // lookahead.cc
  void NoteComing(Page& p, TierIndex tier);
  void EndPrefetch(Page& p, std::uint64_t* counter);
  void On(const PrefetchPages& event);
  void Hint(PageIndex index, const Goal& goal, bool comes);
  bool FollowAdvice(TierIndex tier);
  void RefreshNextUses();
  void SetNextUse(PageIndex index, Position from);
  void AddGoal(PageIndex index, const Goal& goal);
  void RemoveGoal(PageIndex index);
  void ReconsiderGoal(PageIndex index);
  bool GoalReached(const Page& p) const;
  void ContinueGoals();
  bool GoalsBlocked() const;
  std::optional<GoalQueue::Key> NextGoal(const std::optional<GoalQueue::Key>& last) const;
  void ContinueGoal(PageIndex index);
  void DequeueGoal(Page& p, PageIndex index);
  void PrefetchInto(TierIndex tier);
  bool WindowIsSmall(TierIndex tier, Position end) const;
  bool WantAhead(TierIndex tier, const PageRequest& request, Position position);
  bool BlockedByQueue(const Page& p) const;
  std::optional<PageIndex> VictimToClean(TierIndex tier, Position horizon) const;
  void CleanAhead(TierIndex tier);

  // need_pass.cc
  bool IsDry(TierIndex tier, const Claim& claim);
  bool StepsAlone(const PageRequest& request) const;
  NeedQueue::Group GroupOf(const PageRequest& request) const;
  void CloseWhatIsBarred(TierIndex wanted, const Claim& claim, NeedQueue::Pass* pass);
  void WorkOn(NeedQueue::Ordinal ordinal, Ticket& ticket, NeedQueue::Pass* pass);
  template <typename Found>
  bool AnyPassedOver(const Ticket& ticket,
                     const NeedQueue::Pass& pass,
                     TierIndex tier,
                     Found found);
  void NotePassedOver(const Ticket& ticket, const NeedQueue::Pass& pass, TierIndex tier);
  void WorkOn(Ticket& ticket);

  // pump.cc
  void Pump();
  void PumpOnce();
  void ResetPumpState();
  void ContinueTransits();
  void ContinueTransit(PageIndex index, TierIndex tier);
  bool InTurn(const Ticket& ticket) const;
  static bool WaitsFor(OpNumber op, const Holder& holder, const Ticket& ticket);
  void WorkOnReservations();
  bool FailStuckTicket();
  bool RetryFenced(std::uint64_t arrival);
  void FailForRoom();
  FailTicket WhyStuck(const Ticket& ticket, TierIndex tier) const;
  bool RefuseStuckChange();

  // abandoned.cc
  void On(const AbandonCopies& event);
  void SetDoomedAside(PageIndex index);
  void RestoreDoomed(PageIndex index);

  // capacity.cc
  std::uint64_t FramesLeft(TierIndex tier) const;
  FrameIndex WorkingFrames(TierIndex tier) const;
  bool HoldsPagesBelow(TierIndex tier) const;
  PagesByTier CapacityFor(const CreateSegment& event) const;
  void CheckCommitments() const;

  // budget.cc
  void On(const ReserveFrames& event);
  void On(const ReleaseFrames& event);
  void On(const SetBudget& event);
  void VacateBudgets();
  void Vacate(TierIndex tier, FrameIndex frame);
  std::uint32_t PinnedFrames(TierIndex tier) const;
  FrameIndex LeastFrames(TierIndex tier) const;

  CoreOptions options_;
  bool online_;  ///< true if the policy is not to know the schedule
  std::vector<TierState> tiers_;
  std::vector<LinkLoad> links_;
  std::vector<Page> pages_;
  absl::flat_hash_map<TaskNumber, Task> tasks_;
  std::uint32_t refills_in_flight_ = 0;  ///< tasks that restore pages from files or callbacks
  TaskNumber next_task_ = 1;
  std::set<TaskNumber> hurried_;     ///< page-outs in flight that a ticket is known to wait for
  std::set<TaskNumber> unhurried_;   ///< page-outs in flight that no ticket is known to wait for
  std::vector<Shortage> shortages_;  ///< shortages of tickets, per pump
  absl::flat_hash_map<TicketNumber, std::unique_ptr<Ticket>> tickets_;
  std::vector<Ticket*> pending_;  ///< acquires not granted, in order of arrival
  Ticket* head_ = nullptr;        ///< first ticket whose wants its pages know
  absl::flat_hash_map<OpNumber, Holder> holders_;
  /// Tickets that release the page once it has arrived, one for each lease.
  absl::flat_hash_map<PageIndex, std::vector<TicketNumber>> late_releases_;
  /// Lanes with an earlier pending ticket, per pump.
  absl::flat_hash_set<LaneIndex> lanes_waiting_;
  std::vector<std::unique_ptr<Ticket>> kills_;
  std::uint64_t next_arrival_ = 1;
  std::vector<PageIndex> transits_;  ///< pages that wait in a transit frame to go on
  std::vector<PageIndex> holding_;   ///< pages with a held frame, in the order of taking
  GoalQueue goals_;
  absl::flat_hash_map<ReservationNumber, ReservedFrames> reservations_;
  std::vector<ReservationNumber> pending_reservations_;
  ScheduleBook book_;
  absl::flat_hash_map<KeyIndex, std::shared_ptr<const Plan>> plans_;
  std::shared_ptr<const Plan> plan_;  ///< plan that is followed
  Position plan_since_ = 0;           ///< position of the plan's first step, in its first iteration
  /// Leaves that are due, page by page, of pages that are not there yet.
  std::vector<DueLeave> late_;
  CoreCounters counters_;
  std::uint32_t pinned_pages_ = 0;
  bool pump_again_ = false;
  /// Count of the changes that may change a policy's victim: pumps, actions, facts, needs that are
  /// met.
  std::uint64_t changes_ = 1;
  std::uint64_t tasks_since_progress_ = 0;
  std::vector<Action>* actions_ = nullptr;
};

}  // namespace sluice::core
