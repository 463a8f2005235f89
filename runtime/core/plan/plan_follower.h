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

struct Machine;

/// Follows the plan of the iteration that runs: fetches, stays and leaves at the steps it names.
/// Threads: externally synchronised.
class PlanFollower {
 public:
  explicit PlanFollower(Machine& machine) : m_(machine) {}

  void On(const AdoptPlan& event);
  PlanInput RecordedPlan(KeyIndex key) const;
  void FollowPlan(KeyIndex key, bool moved);
  void DropPlans();
  void LeavePlan();
  void TakePlannedStep(Position position);
  void EndPlannedStep(Position position);
  void ContinueLeaves();
  bool DropLetGo(TierIndex tier, const Claim& claim);
  bool FollowsPlan() const { return plan_ != nullptr; }
  bool SavesTraffic() const;
  bool LeavesMakeRoom(TierIndex tier) const;
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

  Machine& m_;
  absl::flat_hash_map<KeyIndex, std::shared_ptr<const Plan>> plans_;
  std::shared_ptr<const Plan> plan_;  ///< plan that is followed
  Position plan_since_ = 0;           ///< position of the plan's first step, in its first iteration
  /// Leaves that are due, page by page, of pages that are not there yet.
  std::vector<DueLeave> late_;
};

}  // namespace sluice::core
