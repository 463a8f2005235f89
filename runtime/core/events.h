#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/core/plan/plan.h"
#include "runtime/core/types.h"
#include "sluice/tensor.h"

/// What goes into the core. Every event is plain data, so that a log of them can be replayed.

namespace sluice::core {

/// `pages` new pages from `first_page` on; indices not in use. Answer: SegmentCreated or
/// SegmentRefused (no capacity left). The pages are committed to `lowest` as long as that has
/// capacity. If it is the last tier the others are committed for good to the tier above it.
struct CreateSegment {
  SegmentIndex segment = 0;
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  TierIndex lowest = 0;
  TensorKind kind = TensorKind::kOther;
  bool file_home = false;     ///< content exists in a file from the start
  bool reproducible = false;  ///< FillKind::kReproduce can restore a lost page
  /// Nothing is ever written: the pages are committed to no tier, and leave for nothing. REQUIRES:
  /// a file home, and `lowest` above the last tier.
  bool read_only = false;
};

/// The content of whole pages is dead, after everything requested before. Pages read as zeros then.
struct DiscardPages {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
};

/// As DiscardPages, and the pages cease to exist; answer: PagesFreed.
struct FreePages {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
};

struct BeginIteration {
  KeyIndex key = 0;
};
struct EndIteration {};

/// One page of one AcquireAll. A page appears once per Acquire.
struct PageRequest {
  PageIndex page = 0;
  TierIndex tier = 0;
  PageMode mode = PageMode::kRead;
  bool map = false;          ///< wanted at its stable address
  std::uint16_t leases = 1;  ///< Release events that will name it
};

/// One AcquireAll. Answer, now or later: GrantTicket or FailTicket.
struct Acquire {
  TicketNumber ticket = 0;
  OpNumber op = 0;
  LaneIndex lane = 0;
  NameIndex name = 0;
  std::vector<PageRequest> requests;
};

/// Pages that will be wanted soon (Runtime::Prefetch); a hint without an answer.
struct PrefetchPages {
  std::vector<PageRequest> requests;
};

/// Gives up a ticket that was not granted; a granted one ignores it.
struct Cancel {
  TicketNumber ticket = 0;
};

/// One lease of a granted ticket ends.
struct Release {
  TicketNumber ticket = 0;
  std::vector<PageIndex> pages;
};

/// A task (StartCopy, StartFill, StartMap) is complete: bytes in place and verified, mapping made.
struct TaskDone {
  TaskNumber task = 0;
};

/// The bytes of a task (StartCopy, StartFill) are verified and its mapping is made, and a device
/// can order its later work behind it. TaskDone or TaskFailed follows.
struct TaskUnderWay {
  TaskNumber task = 0;
};

/// The ticket's leases are for work of a device that is ordered behind tasks under way: it is
/// granted while pages are. Such a page is pinned as it arrives, and a release takes effect once
/// it has arrived.
struct GrantUnderWay {
  TicketNumber ticket = 0;
};

enum class FailureKind : std::uint8_t {
  kSourceLost,     ///< the source cannot be read correctly any more
  kTargetFull,     ///< the target took nothing; the source is untouched
  kTargetFailed,   ///< the target took no page, for another reason than space
  kSourceRefused,  ///< the last tier cannot be read now; what it holds may still be there
};

struct TaskFailed {
  TaskNumber task = 0;
  FailureKind kind = FailureKind::kTargetFailed;
};

/// Frames that are not paged. Answer: FramesReserved or ReservationRefused.
struct ReserveFrames {
  ReservationNumber reservation = 0;
  TierIndex tier = 0;
  std::uint32_t frames = 0;
};
struct ReleaseFrames {
  ReservationNumber reservation = 0;
};

/// Frames [frames, current) are vacated, or [current, frames) become usable again. Answer:
/// BudgetSet or BudgetRefused.
struct SetBudget {
  TierIndex tier = 0;
  FrameIndex frames = 0;
};

/// What these frames of the last tier hold, or are being given, may soon be unreadable: pages that
/// have another copy, now or once they were read, are written elsewhere when they leave, if the
/// tier takes any. Until then they stay; a page on its way to such a frame is written twice.
struct AbandonCopies {
  std::vector<FrameIndex> frames;
};

/// From now on, in the middle of one or not, iterations of `key` follow the plan, which was made
/// from what is recorded of it; none: no plan.
struct AdoptPlan {
  KeyIndex key = 0;
  std::shared_ptr<const Plan> plan;
};

using Event = std::variant<CreateSegment,
                           DiscardPages,
                           FreePages,
                           BeginIteration,
                           EndIteration,
                           Acquire,
                           PrefetchPages,
                           Cancel,
                           Release,
                           TaskDone,
                           TaskFailed,
                           TaskUnderWay,
                           GrantUnderWay,
                           ReserveFrames,
                           ReleaseFrames,
                           SetBudget,
                           AbandonCopies,
                           AdoptPlan>;

/// One line of text, for the event history.
std::string ToString(const Event& event);

}  // namespace sluice::core
