#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/core/types.h"

/// A plan, derived from a recorded schedule: the steps at which pages leave a tier and come back.

namespace sluice::core {

/// One use of an item, whose pages are always used together and alike, one behind the other.
struct PlanUse {
  std::uint32_t step = 0;
  TierIndex tier = 0;
  PageMode mode = PageMode::kRead;
  bool map = false;
  bool dies = false;  ///< true if the content is discarded or freed after this use
  friend bool operator==(const PlanUse&, const PlanUse&) = default;
};
struct PlanItem {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  TierIndex lowest = kTiersMax;  ///< lowest tier that the pages may leave for
  std::vector<PlanUse> uses;     ///< uses in the order of steps
};

/// Seconds that one page takes over a link. `both_s` > 0: the least seconds per page for two pages,
/// one in each direction at the same time.
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

/// Times at which one step begins, and at which its pages have been given back. They are seconds
/// from the begin of the iteration, if no step waited for pages. Infinite: not before the end of
/// the iteration.
struct StepTime {
  double begin_s = 0;
  double end_s = 0;
};

/// Aim of a plan: to save time, or else pages that cross links, though ops wait for that.
enum class Objective : std::uint8_t { kTime, kTraffic };

/// One iteration that repeats, and the machine.
struct PlanInput {
  /// Fingerprint of the recording, the same for equal recordings.
  std::uint64_t recording = 0;
  /// Seconds from the begin of each step to that of the next, if no step waited for pages.
  std::vector<double> step_seconds;
  /// The first step that begins after the pages of each step have been given back, counted on into
  /// the next iteration.
  std::vector<std::uint32_t> step_ends;
  /// Seconds by which pages come earlier than just in time, where there is room. So a step that
  /// begins early, or a copy that takes long, costs nothing.
  double lead_seconds = 0;
  std::vector<PlanItem> items;
  std::vector<FrameIndex> frames;  ///< frames per tier that pages may fill
  std::vector<PlanLink> links;
  /// Pages that are to be under way on the last link while others are asked for, so that the link
  /// goes on.
  std::uint32_t pages_under_way = 0;
  Objective objective = Objective::kTime;
  /// Whether pages that come before there is room for them come later instead. Uses wait for these
  /// then, not for pages that had to leave for them.
  bool room_first = false;
};

/// Fills in the begins and ends of the steps of an iteration of `seconds`. A step that began before
/// its predecessor counts as if it had begun with it.
void SetStepTimes(const std::vector<StepTime>& steps, double seconds, PlanInput* input);

/// Pages that are to leave `tier`, or, with `stays`, only to be written. They are due once the step
/// that lists them is over.
struct PlannedLeave {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  TierIndex tier = 0;
  bool stays = false;
};
/// Pages that are to come into `tier` from the step on that lists them, for the use `distance`
/// steps later.
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

/// Lists of leaves and fetches by step. A plan wraps: the last steps list fetches for the first
/// ones.
struct Plan {
  std::uint64_t recording =
      0;  ///< recording of the input; a later recording does not follow the plan
  std::vector<std::vector<PlannedLeave>> leaves;
  std::vector<std::vector<PlannedFetch>>
      fetches;                         ///< fetches of each step in the order of their uses
  std::vector<PlannedReturn> returns;  ///< the fetches again, sorted
  /// Whether nothing else makes room in the fastest tier while pages leave it that are to leave.
  /// The last link binds then, and a page dropped in their place would cross it once more.
  bool leaves_make_room = false;

  /// Fills in `returns`.
  void ListReturns();
  /// Whether the page comes into `tier` for its use in `step`. If not, the page is there before.
  bool ComesInto(TierIndex tier, PageIndex page, std::uint32_t step) const;
};

/// Function that tells whether to give up. The planner asks at least once for every step, and for
/// every item and gap between uses that it goes through. Once true, the answer stays true.
using PlanStop = std::function<bool()>;

/// Plans one iteration. Time: about (gaps between uses) x (steps they last). Deterministic.
Plan MakePlan(const PlanInput& input);
/// Does MakePlan; returns none when it has been told to stop.
std::optional<Plan> TryMakePlan(const PlanInput& input, const PlanStop& stop);

}  // namespace sluice::core
