#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "tests/runtime/core/driver/frame_model.h"
#include "tests/runtime/core/driver/shadow_model.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::core {

/// Requests of segments, reservations and budgets that the core has not answered, and reservations
/// that last. Answers are checked, and take effect on the frames and the shadow model.
class OpenRequests {
 public:
  OpenRequests(FrameModel* frames, ShadowModel* shadow, Verdict* verdict)
      : frames_(frames), shadow_(shadow), verdict_(verdict) {}

  void Ask(const CreateSegment& create) { creating_[create.segment] = create; }
  void Ask(const FreePages& free);
  void Ask(const ReserveFrames& reserve) { reserving_[reserve.reservation] = reserve; }
  void Ask(const SetBudget& budget);
  /// Ends a reservation. REQUIRES: the core has made it.
  void End(const ReleaseFrames& release);

  void Answer(const SegmentCreated& created);
  void Answer(const SegmentRefused& refused) { creating_.erase(refused.segment); }
  void Answer(const PagesFreed& freed);
  void Answer(const FramesReserved& reserved);
  void Answer(const ReservationRefused& refused) { reserving_.erase(refused.reservation); }
  void Answer(const BudgetSet& set);
  void Answer(const BudgetRefused& refused);

  /// Checks that every request is answered.
  void CheckAnswered();

 private:
  FrameModel* frames_;
  ShadowModel* shadow_;
  Verdict* verdict_;
  std::map<SegmentIndex, CreateSegment> creating_;
  std::multiset<std::pair<PageIndex, std::uint32_t>> freeing_;
  std::map<ReservationNumber, ReserveFrames> reserving_;  ///< reservations asked for or made
  std::map<ReservationNumber, FramesReserved> reserved_;
  /// Budgets before and after a change that is not answered.
  std::map<TierIndex, std::pair<FrameIndex, FrameIndex>> budget_asked_;
};

}  // namespace sluice::core
