#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/drives/drive_places.h"
#include "runtime/core/events.h"
#include "runtime/engine/api/request_builder.h"
#include "runtime/engine/api/tensor_table.h"
#include "runtime/engine/data/segment.h"

/// Messages of other threads to the core thread.

namespace sluice::internal {
class TicketState;
}

namespace sluice::engine {

// Requests: their number in the queue is bounded.

/// An AcquireAll; the answer goes to the ticket.
struct AcquireRequest {
  std::shared_ptr<internal::TicketState> ticket;
  core::Acquire event;
};
/// A segment to create; the reply comes when the core has committed its capacity.
struct CreateRequest {
  std::shared_ptr<Segment> segment;
  std::promise<absl::Status> reply;
};
struct FrameGrant {
  core::ReservationNumber reservation = 0;
  std::vector<core::FrameIndex> frames;
};
struct ReserveRequest {
  core::TierIndex tier = 0;
  std::uint32_t frames = 0;
  std::promise<absl::StatusOr<FrameGrant>> reply;
};
/// A new budget. The reply comes when the memory is back with the system, or there again.
struct BudgetRequest {
  core::TierIndex tier = 0;
  core::FrameIndex frames = 0;
  std::promise<absl::Status> reply;
};
/// Pages whose last tensor was freed.
struct FreeRequest {
  core::SegmentIndex segment = 0;
  std::vector<PageRun> runs;
};
/// Pages whose content is dead.
struct DiscardRequest {
  core::SegmentIndex segment = 0;
  std::vector<PageRun> runs;
};
/// A hint of accesses to come.
struct PrefetchRequest {
  TicketDraft draft;
  std::uint32_t ops_ahead = 0;
};
/// An event for the core as it is: marks of iterations, and, as notices, the tickets and tasks
/// under way.
struct EventRequest {
  core::Event event;
};
/// A function that runs on the core thread.
struct CallRequest {
  absl::AnyInvocable<void()> call;
};

// Notices: the queue never refuses one, so that no completion can be lost or block. Their number is
// bounded by that of the tasks, leases, tickets and reservations that they end.

/// A task has ended; `failure` says how it failed, with `status` as the cause.
struct Completion {
  core::TaskNumber task = 0;
  std::optional<core::FailureKind> failure;
  absl::Status status;
};
struct ReleaseNotice {
  core::TicketNumber ticket = 0;
  std::uint32_t access = 0;
};
struct CancelNotice {
  core::TicketNumber ticket = 0;
};
struct ReleaseFramesNotice {
  core::ReservationNumber reservation = 0;
};
/// A drive of the store has failed.
struct DriveFencedNotice {
  io::FencedDrive drive;
};
/// A plan that was asked for; at most one at a time. `seconds`: time that making it took.
struct PlanNotice {
  core::AdoptPlan event;
  double seconds = 0;
};
/// Order to stop: fail requests that wait, let tasks in flight end, return. No requests come after
/// it.
struct StopNotice {};

using Message = std::variant<AcquireRequest,
                             CreateRequest,
                             ReserveRequest,
                             BudgetRequest,
                             FreeRequest,
                             DiscardRequest,
                             PrefetchRequest,
                             EventRequest,
                             CallRequest,
                             Completion,
                             ReleaseNotice,
                             CancelNotice,
                             ReleaseFramesNotice,
                             DriveFencedNotice,
                             PlanNotice,
                             StopNotice>;

}  // namespace sluice::engine
