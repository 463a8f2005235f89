#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/plan/link_calendar.h"
#include "runtime/core/plan/plan.h"

namespace sluice::core {

/// Pages that are not used for a time, and may be away then.
struct PlanGap {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// Steps [from, to); from is below the number of steps, and to at most that much larger.
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  /// The content: which of all the schedule's (kNone: nothing writes it), the use of the item that
  /// wrote it, and the steps from when that was over to `from`.
  std::uint32_t version = kNone;
  std::uint32_t write_use = 0;
  std::uint64_t since_write = 0;
  std::uint32_t pages = 0;
  /// Of them, those that leave rather than any of another gap.
  std::uint32_t preferred = 0;
};

/// How the link below a tier is seen.
struct SweepLink {
  LinkCalendar seen;  ///< calendar that says which page would be away in time
  LinkCalendar real;  ///< calendar that says which page would be written when it leaves
  /// What would be goes first where it is as good.
  bool written_first = false;
};

/// What of a gap is away in [out_done, in_begin).
struct PlannedGap {
  std::uint32_t gap = 0;
  std::uint32_t pages = 0;
  /// Of them, what has to be written first, at any time since the use that wrote it.
  std::uint32_t write_pages = 0;
  std::uint64_t out_done = 0;
  std::uint64_t in_begin = 0;
  /// Steps before out_done in which they were written down already.
  std::uint64_t since_clean = 0;
  /// Not before this step do they begin to leave; 0: with the gap.
  std::uint64_t out_begin = 0;
};

/// Decides which gaps are used so that what is there never exceeds the frames of a tier.
///
/// Note [The sweep]
/// Everything is kept at first but what is dead. Then the steps are gone through in order,
/// beginning with the emptiest: where more is there than fits, the page leaves whose next use is
/// furthest (Belady), but only for as long as the link leaves it away: pages are written as soon as
/// their last writer is over, though they may be read and stay after that, in the order in which
/// they were chosen, and come back as late as possible, in time that no other page has taken. A
/// page that cannot be out by then, or must come back before, does not help, so the next one is
/// taken; when none helps the furthest leaves nevertheless, and the step will wait.
///
/// Note [As good as the furthest]
/// What is there only becomes less, so a step that has room keeps it. A gap that reaches beyond the
/// last step without room that the furthest gap reaches is away in the same steps of those that
/// count: whichever of the two is taken, as few pages leave in all. Of such gaps one goes first
/// whose pages are written by then: it leaves for nothing, just when much has to leave.
class PlanSweep {
 public:
  PlanSweep(std::vector<PlanGap> gaps,
            std::vector<std::int64_t> resident,
            std::int64_t frames,
            SweepLink link,
            const PlanStop& stop);

  /// Ends early, with something of no use, when told to stop.
  void Run();
  const std::vector<PlannedGap>& planned() const { return planned_; }
  /// Pages there, by step; after Run.
  const std::vector<std::int64_t>& resident() const { return resident_; }

 private:
  /// How pages of a gap would be away.
  struct Away {
    std::uint32_t write_pages = 0;
    std::uint64_t write_from = 0;
    std::uint64_t clean = 0;  ///< when all of them are written, counted as write_from
    std::uint64_t out_done = 0;
    std::uint64_t in_begin = 0;
  };

  /// Whose turn it is to leave.
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
  /// By version: pages of it that are written down, and after how many steps.
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
