#pragma once

#include <unordered_map>

#include "runtime/core/actions.h"
#include "runtime/core/core.h"
#include "runtime/core/events.h"
#include "runtime/engine/control/messages.h"
#include "runtime/engine/data/page_owners.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/mover/data_mover.h"

namespace sluice::engine {

/// Requests that wait for an answer of the core: segments, reservations, budgets. Threads: the core
/// thread only.
class RequestBook {
 public:
  struct Parts {
    const core::Core* core = nullptr;
    const TierSet* tiers = nullptr;
    DataMover* mover = nullptr;
    PageOwners* owners = nullptr;
  };

  explicit RequestBook(const Parts& parts) : parts_(parts) {}

  /// Keeps a request, and returns the event that asks the core for it.
  core::CreateSegment Add(CreateRequest request);
  core::ReserveFrames Add(ReserveRequest request);
  core::SetBudget Add(BudgetRequest request);

  /// Answers the request of which the action tells. REQUIRES: the request was added, and was not
  /// answered.
  void Answer(const core::SegmentCreated& action);
  void Answer(const core::SegmentRefused& action);
  void Answer(core::FramesReserved& action);
  void Answer(const core::ReservationRefused& action);
  void Answer(const core::BudgetSet& action);
  void Answer(const core::BudgetRefused& action);

  /// Answers every request that waits with Cancelled: the runtime shuts down.
  void CancelAll();

 private:
  const Parts parts_;
  std::unordered_map<core::SegmentIndex, CreateRequest> creates_;
  std::unordered_map<core::ReservationNumber, ReserveRequest> reservations_;
  core::ReservationNumber next_reservation_ = 1;
  std::unordered_map<core::TierIndex, BudgetRequest> budgets_;
};

}  // namespace sluice::engine
