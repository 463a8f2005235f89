#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/events.h"
#include "runtime/core/plan/plan.h"
#include "runtime/core/state/page.h"
#include "runtime/core/state/tier_state.h"

namespace sluice::core {

struct ResidencyMachine;

/// Follows the plan of the iteration that runs: fetches, stays and leaves at the steps it names.
/// Threads: externally synchronised.
class PlanFollower {
 public:
  explicit PlanFollower(ResidencyMachine& machine) : m_(machine) {}

  void On(const AdoptPlan& event);
  /// Returns what a plan for the key is made of.
  PlanInput RecordedPlan(KeyIndex key) const;
  /// Follows the plan of the key, from the begin of an iteration or from the middle of one, when a
  /// plan comes. Moves of earlier steps are left to the pump. `moved`: the iteration is not the
  /// expected one.
  ///
  /// A plan that begins finds pages that others left. Those that it has come again before their
  /// next use are let go, the furthest first; without their frames, pages would leave that it
  /// keeps. (With several links this gained nothing, as pages leave there for other reasons, too.)
  void FollowPlan(KeyIndex key, bool moved);
  /// Drops plans of schedules that are not kept any more.
  void DropPlans();
  /// Leaves the plan. Moves that it has begun come to their end; no more are begun.
  void LeavePlan();
  /// Fetches what the plan fetches at the step of this position, which has been asked for.
  void TakePlannedStep(Position position);
  /// Has pages leave as planned after the step of this position, whose pages have been given back.
  /// A step that began before the plan is none of it.
  void EndPlannedStep(Position position);
  /// Sends away the pages of each tier that are due, then writes those that are to stay. Both go in
  /// order, as far as the link takes them.
  void ContinueLeaves();
  /// Drops a page that was let go. Pages that come ahead displace no others. In the fastest tier,
  /// the page is one whose next use comes after that of the claim. Returns whether there was such a
  /// page.
  bool DropLetGo(TierIndex tier, const Claim& claim);
  bool FollowsPlan() const { return plan_ != nullptr; }
  /// Returns whether a plan is followed that saves bytes rather than time.
  bool SavesTraffic() const;
  /// Returns whether nothing else leaves for want of frames, as what is planned to leave goes on:
  /// to save traffic, or where the last link binds.
  bool LeavesMakeRoom(TierIndex tier) const;
  /// Returns whether the plan has the page, when it leaves the tier above, stay in `tier` until its
  /// next use.
  bool IsKept(PageIndex index, TierIndex tier) const;
  bool HasPlan(KeyIndex key) const { return plans_.contains(key); }

 private:
  std::size_t PlannedStep(Position position) const;
  void FetchPlanned(const PlannedFetch& fetch, Position position);
  void StayPlanned(PageIndex index, TierIndex tier, Position position);
  void AddLeave(const DueLeave& due);
  bool ContinueLeaves(std::deque<DueLeave>* due);
  bool IsDue(const DueLeave& due, PageIndex index) const;
  bool LeavePlanned(const DueLeave& due);
  void LetGo(PageIndex index, const DueLeave& due);
  bool IsLetGo(TierIndex tier, const DueLeave& due) const;
  bool DropBroughtUp(TierIndex tier, const Claim& claim);
  bool IsAboveToo(const Page& p, TierIndex tier) const;
  bool IsComing(const Page& p, TierIndex tier) const;
  bool IsToBeKeptBelow(PageIndex index, TierIndex tier) const;

  ResidencyMachine& m_;
  absl::flat_hash_map<KeyIndex, std::shared_ptr<const Plan>> plans_;
  std::shared_ptr<const Plan> plan_;  ///< plan that is followed
  Position plan_since_ = 0;           ///< position of the plan's first step, in its first iteration
  /// Leaves that are due, page by page, of pages that are not there yet.
  std::vector<DueLeave> late_;
};

}  // namespace sluice::core
