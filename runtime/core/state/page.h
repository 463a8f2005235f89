#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "runtime/core/state/need_queue.h"
#include "runtime/core/types.h"
#include "sluice/policy.h"

namespace sluice::core {

enum class CopyState : std::uint8_t {
  kNone,
  kFilling,  ///< a task is bringing the bytes
  kPlaced,   ///< a frame without content, for an overwrite to come
  kValid,    ///< the page's current content
};

/// A page in one tier.
struct PageCopy {
  FrameIndex frame = kNoFrame;
  CopyState state = CopyState::kNone;
  std::uint16_t readers = 0;  ///< tasks that read the frame
  bool mapping = false;       ///< a StartMap is in flight
  bool mapped = false;
  bool under_way = false;  ///< state is kFilling, and a device can order its work behind the task
  bool leaving = false;    ///< true if the page is dropped after its page-out
  bool transit = false;    ///< true if the copy is in a transit frame
  /// Whether the copy may soon be unreadable, and another is to take its place.
  bool doomed = false;
  LinkDirection transit_direction = LinkDirection::kIn;
  bool known = false;      ///< true if the policy knows that the page is here
  bool candidate = false;  ///< true if the policy knows that the page is evictable
  bool told_free = false;  ///< fact as the policy knows it: the page leaves for free
  bool told_return = false;
  bool lossless = false;             ///< true if the copy is among those that may be dropped
  std::uint32_t lossless_place = 0;  ///< place among those that may be dropped
  Position told_use = kNever;
  Position stays_for = kNever;  ///< position before which a plan keeps the page here
};

struct Ticket;

/// One page of one ticket, queued on the page in the order of arrival.
struct Need {
  Ticket* ticket = nullptr;
  PageRequest request;
  bool locked = false;  ///< no earlier need of the page conflicts
  bool ready = false;   ///< true if the ticket counts the need as ready
};

enum class TicketKind : std::uint8_t { kAcquire, kDiscard, kFree };

struct Ticket {
  TicketKind kind = TicketKind::kAcquire;
  TicketNumber number = 0;
  OpNumber op = 0;
  LaneIndex lane = 0;
  bool nested = false;         ///< true if ops of the lane that hold pages go on only after it
  Position position = kNever;  ///< position of the ticket's step in the schedule
  std::uint64_t arrival = 0;
  bool granted = false;
  bool takes_under_way = false;  ///< true if the ticket is granted while its pages are under way
  std::uint32_t unready = 0;
  std::uint32_t pinned = 0;  ///< number of leases out
  PageIndex first_page = 0;  ///< first page of a kDiscard or kFree
  std::uint32_t pages_left = 0;
  std::vector<Need> needs;
  NeedQueue queue;
};

/// Tier and time at which a page is wanted ahead of need.
struct Goal {
  TierIndex tier = kNoTier;
  PageMode mode = PageMode::kRead;
  bool map = false;
  Position position = kNever;
  Position not_before = 0;
};

constexpr std::array<FrameIndex, kTiersMax> NoFrames() {
  std::array<FrameIndex, kTiersMax> frames{};
  frames.fill(kNoFrame);
  return frames;
}

struct Page {
  bool exists = false;
  bool content = false;    ///< true if the page has bytes that a read must see
  bool file_home = false;  ///< true if the content is (also) in a file
  bool reproducible = false;
  bool read_only = false;  ///< true if the page is committed to no tier, as its file always has it
  bool lost = false;
  /// Whether the copy in the last tier could not be read: better made again, and dropped then.
  bool refused = false;
  bool write_pinned = false;
  bool dying = false;  ///< true if a FreePages waits for the page
  TierIndex lowest = 0;
  TensorKind kind = TensorKind::kOther;
  SegmentIndex segment = 0;
  /// Whether the page has content, and no file has it.
  bool written() const { return content && !file_home; }
  std::uint32_t pins = 0;
  std::uint32_t tasks = 0;  ///< tasks in flight, of any kind
  std::uint64_t generation = 0;
  std::array<PageCopy, kTiersMax> copies;
  /// The frame that the page's last mapped copy left in each tier. A tier that keeps mappings has
  /// the frame here that the page's address is mapped to.
  std::array<FrameIndex, kTiersMax> was_mapped_to = NoFrames();
  /// Attempts in a row that did not bring the page to each tier, or map it there.
  std::array<std::uint8_t, kTiersMax> bring_failures{};
  /// The last tier's slot of an older generation, kept until a newer one is acknowledged.
  FrameIndex stale_frame = kNoFrame;
  /// Whether stale_frame is that of a doomed copy that is being replaced, not of an older
  /// generation.
  bool stale_holds = false;
  /// A frame held at `held_tier` for a page-in that passes a transit frame.
  FrameIndex held_frame = kNoFrame;
  TierIndex held_tier = kNoTier;
  std::vector<Need*> queue;
  std::uint8_t head_wants = 0;  ///< bit t: the ticket at the head waits to lease it in tier t

  Position next_use = kNever;
  TierIndex next_tier = kNoTier;
  PageMode next_mode = PageMode::kRead;
  bool next_map = false;
  Goal goal;
  bool goal_queued = false;
  /// Whether the page could not be brought: only a hint or a ticket tries again.
  bool given_up = false;
  TierIndex coming_tier = kNoTier;      ///< tier to which the page is being fetched ahead
  TierIndex prefetched_tier = kNoTier;  ///< tier to which the page was fetched ahead, not used yet
  TierIndex hint_tier = kNoTier;        ///< tier of the next use, as a hint says
  Position hinted = kNever;             ///< position after which that use comes
};

inline int DirectionIndex(TierIndex source, TierIndex target) { return target > source ? 1 : 0; }

/// Whether a copy of the page sits in a transit frame.
inline bool InTransit(const Page& p) {
  return std::any_of(
      p.copies.begin(), p.copies.end(), [](const PageCopy& copy) { return copy.transit; });
}

/// Whether a discard or free waits only for tasks of the page: all of its frames are given back
/// soon.
inline bool Dies(const Page& p) {
  return !p.queue.empty() && p.queue.front()->ticket->kind != TicketKind::kAcquire;
}

enum class Purpose : std::uint8_t { kDemand, kAhead, kClean };

/// Purpose for which a frame is wanted, which decides the pages that may be displaced for it.
struct Claim {
  Purpose purpose = Purpose::kDemand;
  std::uint64_t arrival = UINT64_MAX;  ///< pages wanted by tickets up to this one are protected
  Position position = 0;               ///< position of the op that the frame is for, if kAhead
  PageIndex page = kNoPage;
  /// The page that moves once there is room. Every copy of it may be the source, so none is
  /// displaced, not even by the victims of victims.
  PageIndex mover = kNoPage;
  /// Whether the frame is where the mover's ticket wants it, or where a page in transit must stay.
  bool arrives = false;
  /// Departure that the policy is told of the page that leaves.
  Departure departure = Departure::kVictim;
};

enum class TaskKind : std::uint8_t { kCopy, kFill, kMap };

struct Task {
  TaskKind kind = TaskKind::kCopy;
  PageIndex page = kNoPage;
  TierIndex source = kNoTier;
  TierIndex target = kNoTier;
  FrameIndex target_frame = kNoFrame;
  FillKind fill = FillKind::kUndefined;
  bool map = false;
  bool evict = false;  ///< true if the source is to be dropped afterwards
  Purpose purpose = Purpose::kDemand;
  bool urgent = false;  ///< true if a ticket is known to wait for the task
};

inline bool Restores(FillKind fill) {
  return fill == FillKind::kFile || fill == FillKind::kReproduce;
}

/// Whether the task restores a page from its file or its callback.
inline bool IsRefill(const Task& task) {
  return task.kind == TaskKind::kFill && Restores(task.fill);
}

/// Whether the task brings bytes that the page is to have.
inline bool BringsContent(const Task& task) {
  return task.kind == TaskKind::kCopy ||
         (task.kind == TaskKind::kFill && task.fill != FillKind::kUndefined);
}

/// Whether a discard or free is queued on the page.
inline bool IsToBeKilled(const Page& p) {
  return std::any_of(p.queue.begin(), p.queue.end(), [](const Need* need) {
    return need->ticket->kind != TicketKind::kAcquire;
  });
}

}  // namespace sluice::core
