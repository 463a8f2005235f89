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

/// One step of the program, with the tensors that it needs:
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

/// One tensor (or a range of it) that an op needs, where and how.
struct Access {
  TensorId tensor = {};
  ByteRange range = kWholeTensor;
  AccessMode mode = AccessMode::kRead;
  /// Tier of the lease; none: the fastest tier that has a budget.
  std::optional<TierId> tier = std::nullopt;
  /// Whether Lease::Contiguous is wanted; elementwise work does with Spans and spares the mapping.
  bool contiguous = true;
  /// Of an access that writes: to make what the op writes here again, from what it reads, takes so
  /// many seconds, 1e9 at most; none: it cannot be made again, or nobody knows. It is recorded
  /// (ScheduleAccess), and the Runtime makes nothing again by itself.
  std::optional<double> recompute_seconds = std::nullopt;
};

/// How long threads were blocked for a ticket, by what it waited for meanwhile. A write: no frame
/// was free for one of its pages until a page-out had ended, or a page that it was to write was
/// still being written out. A read: anything else, as a rule pages on their way in.
struct WaitTimes {
  double read_seconds = 0;
  double write_seconds = 0;

  double seconds() const { return read_seconds + write_seconds; }
};

/// The answer to one AcquireAll: all of its leases at once, or none.
/// Threads: externally synchronised; the ticket may move between threads. Fork: see Runtime; in a
/// child it has failed.
class Ticket {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Ticket();
  Ticket(Ticket&&) noexcept;
  Ticket& operator=(Ticket&&) noexcept;
  /// Cancels when the leases were not taken.
  ~Ticket();

  /// True when Take will not block: granted or failed.
  bool Ready() const;
  /// Blocks until granted or failed. Errors: DeadlineExceeded (the ticket lives on); else as Take.
  absl::Status Wait(Deadline deadline = Deadline::max());
  /// Gives the request up; leases already granted are released, which leaves what a kOverwrite
  /// covers undefined. Never blocks.
  void Cancel();

  /// Waits, then hands out one lease per access, in the order of the request.
  /// Errors: InvalidArgument (unknown tensor, bad range, one page asked for in two tiers, seconds
  /// to make again that are negative, NaN, above 1e9 or of a read: names op and tensor),
  /// ResourceExhausted (the op can never fit: names op, bytes needed, tier and budget),
  /// DataLoss (names tensor, range, tier and cause), Unavailable (the pages are where they were,
  /// but cannot be read or brought now: names tensor, range, tier and cause; a later request tries
  /// again), Aborted ("would deadlock": other ops hold what this one needs and wait themselves),
  /// Cancelled (cancelled, or the Runtime shut down), FailedPrecondition (in a child of fork).
  absl::StatusOr<std::vector<Lease>> Take();

  /// Of Wait and Take so far.
  WaitTimes waited() const;

 private:
  friend class Op;
  friend class StreamRef;
  explicit Ticket(std::shared_ptr<internal::TicketState> state);
  std::shared_ptr<internal::TicketState> state_;
};

struct OpOptions {
  /// Names the op in schedules, traces and messages.
  std::string name = {};
  /// Ops of one lane run one after another and get their pages in the order of AcquireAll, so a
  /// thread may ask for its next op before the current one has its pages. Lanes run beside each
  /// other: threads that run ops at the same time give each thread a lane of its own.
  std::string lane = "gpu";
};

/// One step of the repeating structure. Ends by destruction or EndAfter; its time excludes stalls.
/// Threads: several ops may be open at once on several threads; one op belongs to one thread.
class Op {
 public:
  Op();
  Op(Op&&) noexcept;
  Op& operator=(Op&&) noexcept;
  ~Op();

  /// Asks for everything at once; never blocks inside the call (a full request queue gives an
  /// unready ticket). Asking twice in one op is allowed; holding one set while waiting for another
  /// can fail with Aborted ("would deadlock"), also when the next op of the lane, asked for before,
  /// already holds the pages.
  Ticket AcquireAll(std::span<const Access> accesses);
  /// The same for a list in place: AcquireAll({weights, {.tensor = gradient}}).
  Ticket AcquireAll(std::initializer_list<Access> accesses);

  /// One lease, waited for: AcquireAll and Take. Errors: as Ticket::Take.
  absl::StatusOr<Lease> Acquire(const Access& access);

  /// The op ends when everything enqueued on `stream` so far is done.
  void EndAfter(StreamRef stream);
  void End();

 private:
  friend class Runtime;
  explicit Op(std::shared_ptr<internal::OpState> state);
  std::shared_ptr<internal::OpState> state_;
};

}  // namespace sluice
