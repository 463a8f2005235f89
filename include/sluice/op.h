#pragma once

#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/lease.h"
#include "sluice/stream.h"
#include "sluice/tensor.h"
#include "sluice/tier.h"
#include "sluice/units.h"

/// An op of the program, with the tensors that it needs:
///
///   sluice::Op op = runtime->BeginOp({.name = "layer 3 forward"});
///   sluice::Ticket ticket = op.AcquireAll({{.tensor = weights},
///                                          {.tensor = output,
///                                           .mode = sluice::AccessMode::kOverwrite}});
///   auto leases = ticket.Take();                   // waits; one lease per access, all at once
///   if (!leases.ok()) return leases.status();      // names op, tensor, tier and cause
///   Multiply((*leases)[0].As<float>(), (*leases)[1].As<float>());

namespace sluice {

namespace internal {
class OpState;
class TicketState;
}  // namespace internal

/// A tensor, or a range of one, that an op needs: where and how.
struct Access {
  TensorId tensor = {};
  ByteRange range = kWholeTensor;
  AccessMode mode = AccessMode::kRead;
  /// Tier of the lease; none: the fastest tier that has a budget.
  std::optional<TierId> tier = std::nullopt;
  /// Whether Lease::Contiguous is wanted. Elementwise work needs only Spans and saves the mapping.
  bool contiguous = true;
  /// Seconds that the op takes to make the written content again from what it reads, at most 1e9.
  /// None: the content cannot be made again, or nobody knows. Accesses that write have it alone.
  /// The value is recorded (ScheduleAccess); the Runtime itself makes nothing again.
  std::optional<double> recompute_seconds = std::nullopt;
};

/// Time that threads were blocked for a ticket, divided by the cause. A wait for a write: no frame
/// was free until a page-out ended, or a page to be written was still being paged out. Any other
/// wait counts as a wait for a read, usually for pages on their way in.
struct WaitTimes {
  double read_seconds = 0;
  double write_seconds = 0;

  double seconds() const { return read_seconds + write_seconds; }
};

/// The answer to one AcquireAll: all leases at once, or none.
/// Threads: externally synchronised; the ticket may move between threads. Fork: see Runtime; in a
/// child the ticket has failed.
class Ticket {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Ticket();
  Ticket(Ticket&&) noexcept;
  Ticket& operator=(Ticket&&) noexcept;
  /// Cancels the request unless the leases were taken.
  ~Ticket();

  /// Whether Take would not block, since the request is granted or failed.
  bool Ready() const;
  /// Blocks until granted or failed. Errors: DeadlineExceeded (the ticket lives on); else as Take.
  absl::Status Wait(Deadline deadline = Deadline::max());
  /// Gives the request up. Leases that were granted already are released, and the bytes that a
  /// kOverwrite covers are undefined then. Never blocks.
  void Cancel();

  /// Waits, then hands out one lease per access, in the order of the request. A ticket hands them
  /// out once.
  /// Errors, each naming op, tensor, range, tier and cause as far as they apply:
  /// - InvalidArgument: an unknown or freed tensor, a bad range, a tier that has no leases here or
  ///   that the tensor may not reach, a write to a tensor that is only read, bad recompute_seconds.
  /// - InvalidArgument: one page asked for in two tiers, or by more than 65535 accesses.
  /// - ResourceExhausted: the op does not fit into the budget (names the bytes and the budget), or
  ///   no room can be made now (a tier refuses pages, say), which may pass.
  /// - ResourceExhausted: the system gives no addresses or mappings (vm.max_map_count).
  /// - DataLoss: the pages are lost.
  /// - Unavailable: the pages cannot be read now; a later request tries again.
  /// - Aborted ("would deadlock"): other ops hold what this one needs, and wait themselves.
  /// - Cancelled: the ticket was cancelled, its op had ended, or the Runtime shut down.
  /// - FailedPrecondition: an empty ticket, one whose leases were taken before, or a child of fork.
  absl::StatusOr<std::vector<Lease>> Take();

  /// Time that Wait and Take have blocked so far.
  WaitTimes waited() const;

 private:
  friend class Op;
  friend class StreamRef;
  explicit Ticket(std::shared_ptr<internal::TicketState> state);
  std::shared_ptr<internal::TicketState> state_;
};

/// Name and lane of an op, and its place in the lane.
struct OpOptions {
  /// Name of the op in schedules, traces and messages.
  std::string name = {};
  /// Ops of one lane run one after another and get their pages in the order of AcquireAll. A thread
  /// may ask for its next op before the current one has its pages. Lanes run beside each other:
  /// threads that run ops at the same time give each thread a lane of its own.
  std::string lane = "gpu";
  /// Whether ops of the lane nest as blocks do: a nested op that holds pages goes on only after the
  /// nested ones that begin meanwhile. The ticket of an inner op fails with Aborted ("would
  /// deadlock") where the outer one holds what it needs; without `nested` it waits. The inner op
  /// reads what the outer one reads, and need not wait for ops that are to write it.
  bool nested = false;
};

/// A piece of compute in an iteration, until its destruction, End or EndAfter. Stalls are no part
/// of its time. A default-constructed op is one that has ended. Threads: several ops may be open at
/// once on several threads; one op belongs to one thread.
class Op {
 public:
  Op();
  Op(Op&&) noexcept;
  Op& operator=(Op&&) noexcept;
  ~Op();

  /// Asks for all accesses at once. Never blocks: while the request queue is full the ticket is not
  /// ready. A ticket of an op that has ended fails with Cancelled. An op may ask twice. The second
  /// ticket can fail with Aborted ("would deadlock"), since the op holds the first leases
  /// meanwhile.
  Ticket AcquireAll(std::span<const Access> accesses);
  /// Takes a list in place: AcquireAll({weights, {.tensor = gradient}}).
  Ticket AcquireAll(std::initializer_list<Access> accesses);
  /// Asks for all accesses, and gives `before` back ahead of the request: leases that the thread no
  /// longer needs, such as those of the layer before. The core thread wakes once for both.
  /// Leases in `before` may be empty, or another Runtime's. They are given back whatever becomes of
  /// the request, and so count for no deadlock. A child of fork gives nothing back.
  Ticket AcquireAll(std::span<const Access> accesses, std::vector<Lease> before);
  Ticket AcquireAll(std::initializer_list<Access> accesses, std::vector<Lease> before);

  /// Waits for one lease: AcquireAll and Take. Errors: as Ticket::Take.
  absl::StatusOr<Lease> Acquire(const Access& access);

  /// Ends the op once all work enqueued on `stream` so far is done; at once without a stream. The
  /// op asks for nothing more. Errors: as StreamRef::ReleaseAfter; then the op goes on.
  absl::Status EndAfter(StreamRef stream);
  /// Ends the op now. The op asks for nothing more; leases and tickets that it gave stay. Does
  /// nothing if the op has ended.
  void End();

 private:
  friend class Runtime;
  explicit Op(std::shared_ptr<internal::OpState> state);
  std::shared_ptr<internal::OpState> state_;
};

}  // namespace sluice
