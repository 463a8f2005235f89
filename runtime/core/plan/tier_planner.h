#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/core/plan/link_calendar.h"
#include "runtime/core/plan/plan.h"
#include "runtime/core/plan/plan_sweep.h"

namespace sluice::core {

/// From when on an item's pages, or some of them, are not needed above a tier, until they are
/// again: between two uses there, or as the tier above has planned.
struct PlanSpan {
  std::uint32_t item = 0;
  std::uint32_t use = 0;   ///< the one before, of the item's
  std::uint32_t next = 0;  ///< the one after
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  /// Steps, as those of a PlanGap; and the step of the use after.
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t use_at = 0;
  bool begins_here = false;         ///< the content is in the tier at `from`, else it is below
  bool ends_here = false;           ///< it has to be there at `to`, else it has to be below
  bool from_above = false;          ///< the tier above has sent it
  std::uint64_t since_arrival = 0;  ///< steps before `from` in which a copy is there already
};

/// How the link below a tier is seen.
struct TierPace {
  double stretch = 1;  ///< steps last that many times as long as they would without waiting
  /// What leaves is chosen as if the link were that many times as fast.
  double swift = 1;
  bool in_no_time = false;  ///< it is chosen as if nothing took the link any time
};

/// By item and the use before: pages that are away until the use after.
using PagesAway = std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>;

/// What else a tier's plan is to achieve. `preferred` outlives the planner.
struct TierAims {
  /// Of pages that are as good as the furthest those leave first that are written by then.
  bool written_first = false;
  /// What is away leaves as late as there is room, so that the tiers below have more.
  bool leaves_late = false;
  const PagesAway* preferred = nullptr;  ///< these leave rather than others
};

/// Plans what crosses the link below one tier. `stop` outlives the planner.
class TierPlanner {
 public:
  TierPlanner(const PlanInput& input,
              TierIndex tier,
              const TierPace& pace,
              const TierAims& aims,
              const PlanStop& stop);

  /// `above`: what the tier above sends here. Adds to the plan, and returns what goes below. What
  /// comes of it is of no use when it was told to stop.
  std::vector<PlanSpan> AddTo(const std::vector<PlanSpan>& above, Plan* plan);
  /// How long the link is busy with what AddTo has planned, at least.
  double LinkSeconds() const;
  /// What AddTo has chosen.
  const PagesAway& away() const { return away_; }

 private:
  static std::vector<double> Stretched(std::vector<double> seconds, double by);

  /// What is used below next: it begins to leave with step `begin`, and is through in `done`.
  struct Down {
    PlanSpan span;
    std::uint64_t begin = 0;
    std::uint64_t done = 0;
  };

  void AddUses(std::uint32_t item, std::vector<PlanSpan>* spans);
  void AddSpan(PlanSpan span);
  void AddGap(const PlanSpan& span);
  void SendDown(const PlanSpan& span);
  bool IsShort(TierIndex tier) const;
  void EmitDowns(std::vector<std::int64_t>* resident);
  void StayLonger(Down* down, std::vector<std::int64_t>* resident) const;
  void FetchUp(const PlanSpan& span);
  std::uint64_t EndOf(const PlanItem& item, std::uint32_t use) const;
  void FindWriter(const PlanSpan& span, PlanGap* gap);
  void Occupy(std::uint64_t from, std::uint64_t to, std::int64_t pages);
  void BeginInTime(std::vector<PlannedGap>* planned, std::vector<std::int64_t>* resident);
  double LeadSeconds() const;
  std::uint64_t Lead(const PlannedGap& planned, std::vector<std::int64_t>* resident) const;
  void SetTimes(std::vector<PlannedGap>* planned, std::vector<std::int64_t> resident);
  bool MayWait(const PlannedGap& planned) const;
  void WriteInQuiet(PlannedGap* gap,
                    LinkCalendar* quiet,
                    std::vector<std::int64_t>* resident) const;
  void LeaveLate(std::vector<PlannedGap>* planned, std::vector<std::int64_t>* resident) const;
  void Emit(const PlannedGap& planned);
  std::uint64_t LeaveStep(const PlanSpan& span, std::uint64_t begin) const;
  void WriteBesideReads(std::vector<PlannedGap>* planned, std::vector<std::int64_t>* resident);
  void EmitFetch(const PlanSpan& span, PageIndex first, std::uint32_t pages, std::uint64_t begin);
  void PassOn(PlanSpan span);

  const PlanInput& input_;
  const TierIndex tier_;
  const std::uint64_t steps_;
  const double stretch_;
  LinkCalendar calendar_;  ///< calendar of the choice
  LinkCalendar real_;
  const bool swift_;  ///< the choice sees a faster link than there is
  const PlanStop& stop_;
  const TierAims aims_;
  PagesAway preferred_;  ///< pages that no gap has taken
  PagesAway away_;
  std::vector<PlanGap> gaps_;
  std::vector<PlanSpan> gap_spans_;  ///< one per gap
  std::vector<Down> downs_;
  std::vector<std::int64_t> resident_;
  /// By item and use: the number of what it writes.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> versions_;
  std::vector<std::uint32_t> gone_;  ///< pages of each gap that leave
  std::vector<PlanSpan> below_;
  std::uint64_t pages_in_ = 0;
  std::uint64_t pages_out_ = 0;
  Plan* plan_ = nullptr;
};

}  // namespace sluice::core
