#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/plan/link_calendar.h"
#include "runtime/core/plan/plan.h"

namespace sluice::core {

/// Pages that are not used for a time, and may be away meanwhile.
struct PlanGap {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// Steps [from, to); from is below the number of steps, and to at most that much larger.
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  /// Content of the pages: its number among those of the schedule (kNone: nothing writes it), the
  /// use of the item that wrote it, and the steps from the end of that use to `from`.
  std::uint32_t version = kNone;
  std::uint32_t write_use = 0;
  std::uint64_t since_write = 0;
  std::uint32_t pages = 0;
  /// Number of the pages that leave rather than any of another gap.
  std::uint32_t preferred = 0;
};

/// The sweep's view of the link below a tier.
struct SweepLink {
  LinkCalendar seen;  ///< calendar that tells the pages that would be away in time
  LinkCalendar real;  ///< calendar that tells the pages that would be written when they leave
  /// Whether pages that would be written go first where they are as good.
  bool written_first = false;
};

/// The pages of a gap that are away in [out_done, in_begin).
struct PlannedGap {
  std::uint32_t gap = 0;
  std::uint32_t pages = 0;
  /// Number of the pages that have to be written first, at any time since the use that wrote them.
  std::uint32_t write_pages = 0;
  std::uint64_t out_done = 0;
  std::uint64_t in_begin = 0;
  /// Steps before out_done in which the pages were already written down.
  std::uint64_t since_clean = 0;
  /// First step in which the pages may begin to leave; 0: with the gap.
  std::uint64_t out_begin = 0;
};

/// Decides which gaps are used, so that the pages in a tier never exceed its frames.
///
/// Note [The sweep]
/// The sweep keeps every page at first but the dead ones. Then it goes through the steps in order,
/// beginning with the emptiest. Where more pages are there than fit, the page leaves whose next use
/// is furthest (Belady). It is away only for as long as the link leaves it away. Pages are written
/// as soon as their last writer is over, in the order in which they were chosen.
///
/// Written pages may be read and stay after that. They come back as late as possible, in time that
/// no other page has taken. A page that cannot be out by the step, or must come back before it,
/// does not help. The sweep then takes the next one. When none helps, the furthest leaves
/// nevertheless, and the step will wait.
///
/// Note [As good as the furthest]
/// The number of pages in the tier only falls, so a step that has room keeps it. The steps that
/// count are those without room. Take the last of them that the furthest gap reaches: another gap
/// that reaches beyond it is away in the same steps that count. Whichever of the two is taken, as
/// few pages leave in all.
///
/// Among such gaps one goes first whose pages are written by then: it leaves for nothing, just when
/// much has to leave.
class PlanSweep {
 public:
  PlanSweep(std::vector<PlanGap> gaps,
            std::vector<std::int64_t> resident,
            std::int64_t frames,
            SweepLink link,
            const PlanStop& stop);

  /// Runs the sweep. It ends early, with a useless result, when told to stop.
  void Run();
  const std::vector<PlannedGap>& planned() const { return planned_; }
  /// Number of pages in the tier by step, after Run.
  const std::vector<std::int64_t>& resident() const { return resident_; }

 private:
  /// Times for which pages of a gap would be away.
  struct Away {
    std::uint32_t write_pages = 0;
    std::uint64_t write_from = 0;
    std::uint64_t clean = 0;  ///< step in which all of them are written, counted as write_from
    std::uint64_t out_done = 0;
    std::uint64_t in_begin = 0;
  };

  /// Kind of the pages that are next to leave.
  struct Turn {
    bool preferred = false;
    bool must_help = false;
  };

  void FreeStep(std::uint64_t step);
  std::vector<std::uint32_t> Candidates(std::uint64_t step) const;
  void Leave(std::uint64_t step, const std::vector<std::uint32_t>& candidates, const Turn& turn);
  std::uint32_t PagesThatMayLeave(std::uint32_t gap, const Turn& turn) const;
  std::uint64_t LastWithoutRoom(std::uint64_t step, std::uint64_t reach) const;
  bool LeavesWritten(std::uint32_t gap) const;
  bool Covers(const PlanGap& gap, std::uint64_t step) const;
  std::uint64_t Until(const PlanGap& gap, std::uint64_t step) const;
  std::uint32_t PagesToWrite(std::uint32_t gap, std::uint32_t pages) const;
  Away WhenAway(std::uint32_t gap, std::uint32_t pages) const;
  bool Helps(const PlanGap& gap, const Away& away, std::uint64_t step) const;
  void Choose(std::uint32_t gap, const Away& away, std::uint32_t pages);

  std::vector<PlanGap> gaps_;
  std::vector<std::uint32_t> left_;  ///< pages by gap that are kept yet
  /// Pages of each version that are written down, and the steps after which they are.
  std::vector<std::uint32_t> clean_;
  std::vector<std::uint64_t> clean_after_;
  std::vector<std::int64_t> resident_;
  std::vector<PlannedGap> planned_;
  const std::int64_t frames_;
  const std::uint64_t steps_;
  LinkCalendar calendar_;
  LinkCalendar real_;
  const bool written_first_;
  const PlanStop& stop_;
};

}  // namespace sluice::core
