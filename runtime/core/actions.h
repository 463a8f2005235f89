#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/core/types.h"

/// Outputs of the core: orders to the driver, and answers.

namespace sluice::core {

/// Order to copy one page between the frames of neighbouring tiers. `generation` is that of the
/// content: the last tier's checksum is bound to it. `map`: the driver maps the target frame at the
/// page's stable address before TaskDone. `urgent`: a ticket waits for the copy.
struct StartCopy {
  TaskNumber task = 0;
  PageIndex page = 0;
  SegmentIndex segment = 0;
  std::uint64_t generation = 0;
  TierIndex source = 0;
  FrameIndex source_frame = 0;
  TierIndex target = 0;
  FrameIndex target_frame = 0;
  bool map = false;
  bool urgent = false;
  friend bool operator==(const StartCopy&, const StartCopy&) = default;
};

/// News that a ticket has come to wait for a page-out that was not urgent: for the room that it
/// makes in its source tier, or to write the page. It comes at most once per task, and only while
/// the task is in flight.
struct HastenCopy {
  TaskNumber task = 0;
  TierIndex target = 0;
  FrameIndex target_frame = 0;
  friend bool operator==(const HastenCopy&, const HastenCopy&) = default;
};

enum class FillKind : std::uint8_t {
  kUndefined,  ///< content about to be overwritten: the driver maps the frame, and no more
  kZero,
  kFile,       ///< content is read from the page's file home
  kReproduce,  ///< the tensor's callback makes the page again
};

/// Order to give a frame its content from somewhere else than a tier.
struct StartFill {
  TaskNumber task = 0;
  PageIndex page = 0;
  TierIndex tier = 0;
  FrameIndex frame = 0;
  FillKind kind = FillKind::kUndefined;
  bool map = false;
  friend bool operator==(const StartFill&, const StartFill&) = default;
};

/// Order to map a resident page at its stable address. `placed`: the frame has no content yet.
struct StartMap {
  TaskNumber task = 0;
  PageIndex page = 0;
  TierIndex tier = 0;
  FrameIndex frame = 0;
  bool placed = false;
  friend bool operator==(const StartMap&, const StartMap&) = default;
};

/// News that the page left the frame, which may be the target of a later action. The driver unmaps
/// the page if `mapped`.
struct DropFrame {
  PageIndex page = 0;
  TierIndex tier = 0;
  FrameIndex frame = 0;
  bool mapped = false;
  friend bool operator==(const DropFrame&, const DropFrame&) = default;
};

/// Answer to Acquire: all pages of the ticket are pinned. Frames are in the order of its requests.
struct GrantTicket {
  TicketNumber ticket = 0;
  std::vector<FrameIndex> frames;
  friend bool operator==(const GrantTicket&, const GrantTicket&) = default;
};

enum class TicketFailure : std::uint8_t {
  kTooLarge,  ///< the op's pages in `tier` (`pages`) exceed what the tier can ever hold (`limit`)
  kWouldDeadlock,  ///< every op that holds what it needs is waiting itself
  kPageLost,       ///< `page` has no readable copy
  kTierFull,       ///< a tier below refuses pages, so no room can be made in `tier`
  kCancelled,
};

struct FailTicket {
  TicketNumber ticket = 0;
  TicketFailure reason = TicketFailure::kCancelled;
  PageIndex page = kNoPage;
  TierIndex tier = kNoTier;
  std::uint32_t pages = 0;
  std::uint32_t limit = 0;
  friend bool operator==(const FailTicket&, const FailTicket&) = default;
};

/// News that the page's only copy, in `tier`, is gone.
struct LosePage {
  PageIndex page = 0;
  TierIndex tier = 0;
  friend bool operator==(const LosePage&, const LosePage&) = default;
};

/// News that the tier refused a page for good. Tickets that need room there fail; a later ticket
/// has the tier asked again.
struct FenceTier {
  TierIndex tier = 0;
  friend bool operator==(const FenceTier&, const FenceTier&) = default;
};

/// Answer to CreateSegment: the tiers to which the segment's pages are committed, and how many to
/// each. The first pages are committed to the lowest tier.
struct SegmentCreated {
  SegmentIndex segment = 0;
  PagesByTier committed{};
  friend bool operator==(const SegmentCreated&, const SegmentCreated&) = default;
};
struct SegmentRefused {
  SegmentIndex segment = 0;
  std::uint32_t pages_available = 0;
  PagesByTier available{};  ///< pages that are available, by tier
  friend bool operator==(const SegmentRefused&, const SegmentRefused&) = default;
};
struct PagesFreed {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  friend bool operator==(const PagesFreed&, const PagesFreed&) = default;
};
struct FramesReserved {
  ReservationNumber reservation = 0;
  std::vector<FrameIndex> frames;
  friend bool operator==(const FramesReserved&, const FramesReserved&) = default;
};
struct ReservationRefused {
  ReservationNumber reservation = 0;
  friend bool operator==(const ReservationRefused&, const ReservationRefused&) = default;
};
/// Answer to SetBudget: frames at or above `frames` are empty.
struct BudgetSet {
  TierIndex tier = 0;
  FrameIndex frames = 0;
  friend bool operator==(const BudgetSet&, const BudgetSet&) = default;
};
struct BudgetRefused {
  TierIndex tier = 0;
  FrameIndex frames_least = 0;  ///< frames that the tier needs now
  friend bool operator==(const BudgetRefused&, const BudgetRefused&) = default;
};

using Action = std::variant<StartCopy,
                            HastenCopy,
                            StartFill,
                            StartMap,
                            DropFrame,
                            GrantTicket,
                            FailTicket,
                            LosePage,
                            FenceTier,
                            SegmentCreated,
                            SegmentRefused,
                            PagesFreed,
                            FramesReserved,
                            ReservationRefused,
                            BudgetSet,
                            BudgetRefused>;

/// The action as one line of text, for the event history.
std::string ToString(const Action& action);

}  // namespace sluice::core
