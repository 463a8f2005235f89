#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/core/plan/plan.h"
#include "runtime/core/types.h"
#include "sluice/tensor.h"

/// Inputs of the core. Every event is plain data, so that a log of them can be replayed.

namespace sluice::core {

/// A new segment of `pages` pages from `first_page` on; their indices are not in use. Answer:
/// SegmentCreated or SegmentRefused (no capacity left). The pages are committed to `lowest` as long
/// as it has capacity. If `lowest` is the last tier, the other pages are committed for good to the
/// tier above it.
struct CreateSegment {
  SegmentIndex segment = 0;
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  TierIndex lowest = 0;
  TensorKind kind = TensorKind::kOther;
  bool file_home = false;     ///< content exists in a file from the start
  bool reproducible = false;  ///< FillKind::kReproduce can restore a lost page
  /// Whether nothing is ever written: the pages are committed to no tier, and leave for nothing.
  /// REQUIRES: a file home, and `lowest` above the last tier.
  bool read_only = false;
};

/// A discard: the content of whole pages is dead, after everything requested before. Pages then
/// read as zeros.
struct DiscardPages {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
};

/// A DiscardPages after which the pages cease to exist. Answer: PagesFreed.
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
  bool map = false;          ///< true if the page is wanted at its stable address
  std::uint16_t leases = 1;  ///< number of Release events that will name the page
};

/// One AcquireAll. Answer, now or later: GrantTicket or FailTicket.
struct Acquire {
  TicketNumber ticket = 0;
  OpNumber op = 0;
  LaneIndex lane = 0;
  NameIndex name = 0;
  std::vector<PageRequest> requests;
  bool nested = false;  ///< true if the ops of the lane that hold pages go on only after this one
};

/// A hint of pages that will be wanted soon, or after further ops (Runtime::Prefetch). It has no
/// answer.
struct PrefetchPages {
  std::vector<PageRequest> requests;
  std::uint32_t ops_ahead = 0;  ///< ops before the use; 0: the pages come now
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

/// A task (StartCopy, StartFill, StartMap) is complete: its bytes are in place and verified, and
/// its mapping is made.
struct TaskDone {
  TaskNumber task = 0;
};

/// The bytes of a task (StartCopy, StartFill) are verified and its mapping is made, and a device
/// can order its later work behind the task. TaskDone or TaskFailed follows.
struct TaskUnderWay {
  TaskNumber task = 0;
};

/// The ticket's leases are for work of a device that is ordered behind tasks under way. So the
/// ticket is granted while pages are under way. Such a page is pinned as it arrives, and its
/// release takes effect once it has arrived.
struct GrantUnderWay {
  TicketNumber ticket = 0;
};

enum class FailureKind : std::uint8_t {
  kSourceLost,     ///< the source cannot be read correctly any more
  kTargetFull,     ///< the target took nothing; the source is untouched
  kTargetFailed,   ///< the move failed for now: target, mapping or refill
  kSourceRefused,  ///< the last tier cannot be read now; its bytes may still be there
};

struct TaskFailed {
  TaskNumber task = 0;
  FailureKind kind = FailureKind::kTargetFailed;
};

/// A request for frames that are not paged. Answer: FramesReserved or ReservationRefused.
struct ReserveFrames {
  ReservationNumber reservation = 0;
  TierIndex tier = 0;
  std::uint32_t frames = 0;
};
struct ReleaseFrames {
  ReservationNumber reservation = 0;
};

/// A new budget: frames [frames, current) are vacated, or [current, frames) become usable again.
/// Answer: BudgetSet or BudgetRefused.
struct SetBudget {
  TierIndex tier = 0;
  FrameIndex frames = 0;
};

/// Frames of the last tier whose bytes, present or on their way, may soon be unreadable. Pages that
/// have another copy, now or once they were read, are written elsewhere when they leave, if the
/// tier takes any. Until then they stay. A page on its way to such a frame is written twice.
struct AbandonCopies {
  std::vector<FrameIndex> frames;
};

/// A plan for iterations of `key`, made from the key's recording. Iterations follow it from now on,
/// in the middle of one or not. None: they follow no plan.
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

/// The event as one line of text, for the event history.
std::string ToString(const Event& event);

}  // namespace sluice::core
