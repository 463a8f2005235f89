#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/core/plan/link_calendar.h"
#include "runtime/core/plan/plan.h"
#include "runtime/core/plan/plan_sweep.h"

namespace sluice::core {

/// A span of steps in which an item's pages, or some of them, are not needed above a tier: between
/// two uses there, or as the tier above has planned.
struct PlanSpan {
  std::uint32_t item = 0;
  std::uint32_t use = 0;   ///< number of the item's use before the span
  std::uint32_t next = 0;  ///< number of the item's use after the span
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  /// Steps [from, to), as those of a PlanGap, and the step of the use after.
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t use_at = 0;
  /// Whether the content is in the tier at `from`, else it is below.
  bool begins_here = false;
  /// Whether the content has to be there at `to`, else it has to be below.
  bool ends_here = false;
  bool from_above = false;          ///< true if the tier above has sent the pages
  std::uint64_t since_arrival = 0;  ///< number of steps before `from` with a copy there already
};

/// The planner's view of the link below a tier.
struct TierPace {
  double stretch = 1;  ///< factor by which steps last longer than they would without waiting
  /// Factor by which the link counts as faster when pages to leave are chosen.
  double swift = 1;
  bool in_no_time = false;  ///< true if pages are chosen as if no copy took the link any time
};

/// Number of pages that are away until the use after, by item and the use before.
using PagesAway = std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>;

/// Further aims of a tier's plan. `preferred` outlives the planner.
struct TierAims {
  /// Whether written pages leave first among pages that are as good as the furthest.
  bool written_first = false;
  /// Whether pages leave as late as there is room, so that the tiers below have more.
  bool leaves_late = false;
  const PagesAway* preferred = nullptr;  ///< pages that leave rather than others
};

/// Plans the copies over the link below one tier. `stop` outlives the planner.
class TierPlanner {
 public:
  TierPlanner(const PlanInput& input,
              TierIndex tier,
              const TierPace& pace,
              const TierAims& aims,
              const PlanStop& stop);

  /// Adds to the plan, and returns the spans that go below. `above`: spans that the tier above
  /// sends here. The result is of no use when the planner was told to stop.
  std::vector<PlanSpan> AddTo(const std::vector<PlanSpan>& above, Plan* plan);
  /// Least seconds for which the link is busy with the copies that AddTo has planned.
  double LinkSeconds() const;
  /// Pages that AddTo has chosen.
  const PagesAway& away() const { return away_; }

 private:
  static std::vector<double> Stretched(std::vector<double> seconds, double by);

  /// Pages that are used below next. They begin to leave with step `begin`, and are through in
  /// `done`.
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
  void ComeLater(std::uint64_t step,
                 std::vector<PlannedGap>* planned,
                 std::vector<std::int64_t>* resident);
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
  const bool swift_;  ///< true if the choice sees a faster link than there is
  const PlanStop& stop_;
  const TierAims aims_;
  PagesAway preferred_;  ///< pages that no gap has taken
  PagesAway away_;
  std::vector<PlanGap> gaps_;
  std::vector<PlanSpan> gap_spans_;  ///< span of each gap
  std::vector<Down> downs_;
  std::vector<std::int64_t> resident_;
  /// Number of the content that each use writes, by item and use.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> versions_;
  std::vector<std::uint32_t> gone_;  ///< pages of each gap that leave
  std::vector<PlanSpan> below_;
  std::uint64_t pages_in_ = 0;
  std::uint64_t pages_out_ = 0;
  Plan* plan_ = nullptr;
};

}  // namespace sluice::core
