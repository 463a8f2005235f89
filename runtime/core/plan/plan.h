#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/core/types.h"

/// What is derived from a recorded schedule: when pages leave a tier and when they come back.

namespace sluice::core {

/// Pages that are always used together and alike, one behind the other.
struct PlanUse {
  std::uint32_t step = 0;
  TierIndex tier = 0;
  PageMode mode = PageMode::kRead;
  bool map = false;
  bool dies = false;  ///< the content is discarded or freed after this use
  friend bool operator==(const PlanUse&, const PlanUse&) = default;
};
struct PlanItem {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  std::vector<PlanUse> uses;  ///< uses in the order of steps
};

/// Seconds that one page takes over a link; `both_s` > 0: the least that two pages take, one in
/// each direction at the same time, counted per page.
struct PlanLink {
  double in_s = 0;
  double out_s = 0;
  double both_s = 0;
};

/// One step of a recording.
struct RecordedStep {
  LaneIndex lane = 0;
  NameIndex name = 0;
};

/// When one step begins, and when its pages have been given back; seconds from the begin of the
/// iteration, if no step waited for pages. Infinite: not before the iteration was over.
struct StepTime {
  double begin_s = 0;
  double end_s = 0;
};

/// What a plan is to save: time, or else the pages that cross links, though ops wait for that.
enum class Objective : std::uint8_t { kTime, kTraffic };

/// One iteration that repeats, and the machine.
struct PlanInput {
  /// Which recording it is: equal for equal ones.
  std::uint64_t recording = 0;
  /// From the begin of each step to that of the next, if no step waited for pages.
  std::vector<double> step_seconds;
  /// By step: the first step that begins after its pages have been given back, counted
  /// on into the next iteration.
  std::vector<std::uint32_t> step_ends;
  /// How much earlier than just in time pages come where there is room, so that a step that begins
  /// early or a copy that takes long costs nothing.
  double lead_seconds = 0;
  std::vector<PlanItem> items;
  std::vector<FrameIndex> frames;  ///< frames per tier that pages may fill
  std::vector<PlanLink> links;
  Objective objective = Objective::kTime;
};

/// Fills in when the steps of an iteration of `seconds` begin and end. A step that began before its
/// predecessor counts as having begun with it.
void SetStepTimes(const std::vector<StepTime>& steps, double seconds, PlanInput* input);

/// Pages that are to leave `tier`, or only to be written, once the step is over that they are
/// listed with.
struct PlannedLeave {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  TierIndex tier = 0;
  bool stays = false;
};
/// Pages that are to come into `tier` from the step on that they are listed with, for the use
/// `distance` steps later.
struct PlannedFetch {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  TierIndex tier = 0;
  std::uint32_t distance = 0;
  PageMode mode = PageMode::kRead;
  bool map = false;
};

/// Pages that come into `tier` for the use in step `use`.
struct PlannedReturn {
  TierIndex tier = 0;
  std::uint32_t use = 0;
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  friend auto operator<=>(const PlannedReturn&, const PlannedReturn&) = default;
};

/// Lists by step. Wraps: what comes for the first steps is listed with the last ones.
struct Plan {
  std::uint64_t recording =
      0;  ///< recording of the input; a later recording does not follow the plan
  std::vector<std::vector<PlannedLeave>> leaves;
  std::vector<std::vector<PlannedFetch>>
      fetches;                         ///< fetches of each step in the order of their uses
  std::vector<PlannedReturn> returns;  ///< the fetches again, sorted
  /// While what is to leave the fastest tier leaves, nothing else makes room there: the last link
  /// binds, and what is dropped in its place would cross it once more.
  bool leaves_make_room = false;

  /// Fills in `returns`.
  void ListReturns();
  /// Whether the page comes into `tier` for its use in `step`: if not, it is there before.
  bool ComesInto(TierIndex tier, PageIndex page, std::uint32_t step) const;
};

/// Whether to give up. Asked at least once for every step, and for every item and gap between uses
/// that is gone through; once true it stays true.
using PlanStop = std::function<bool()>;

/// Plans one iteration. Time: about (gaps between uses) x (steps they last). Deterministic.
Plan MakePlan(const PlanInput& input);
/// The same; none when it has been told to stop.
std::optional<Plan> TryMakePlan(const PlanInput& input, const PlanStop& stop);

}  // namespace sluice::core
