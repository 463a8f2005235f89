#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"

/// Work on a device in order, with the leases that it needs:
///
///   auto stream = runtime->CreateStream();
///   sluice::Op op = runtime->BeginOp({.name = "forward"});
///   sluice::Ticket ticket = op.AcquireAll({{.tensor = weights}});
///   absl::Status ready = stream->WaitOn(ticket);        // work that follows finds the pages
///   if (!ready.ok()) return ready;
///   auto leases = ticket.Take();                        // one lease per access
///   stream->Enqueue([] { LaunchKernel(); });
///   absl::Status kept = stream->ReleaseAfter(std::move(leases->front()));
///   if (!kept.ok()) return kept;                        // the lease is still the caller's
///   return op.EndAfter(*stream);

namespace sluice {

class Lease;
class Ticket;

namespace internal {
class StreamState;
}

/// An ordered queue of device work: a CUDA stream, or a thread of the emulated device.
/// Threads: any. Lifetime: shared. The last reference waits until the queue is drained, and so does
/// the Runtime; but for an adopted stream only the Runtime waits, until leases and ops that it
/// keeps are released. The stream's own work may drop the last reference: queued work still runs
/// then, and only the Runtime waits for it. Fork: see Runtime; in a child a stream does nothing.
class StreamRef {
 public:
  StreamRef();
  StreamRef(const StreamRef&);
  StreamRef& operator=(const StreamRef&);
  StreamRef(StreamRef&&) noexcept;
  StreamRef& operator=(StreamRef&&) noexcept;
  ~StreamRef();

  /// Whether this refers to a stream: not if it is default-constructed or moved-from.
  bool valid() const { return state_ != nullptr; }

  /// Blocks the caller until work that is enqueued on the stream afterwards finds the ticket's
  /// pages in place. Copies to a GPU may still run: the call returns once each page of hbm is
  /// verified in dram and its copy enqueued. Ticket::Take then gives the leases at once.
  ///
  /// The leases are for work of this stream, and of each other stream that waits on the ticket as
  /// well. The time of the op includes what the stream waits for such copies. Errors: as
  /// Ticket::Take, and the driver's, such as Unavailable (a dead GPU); then the ticket has failed.
  absl::Status WaitOn(Ticket& ticket);
  /// Takes `lease` and releases it when everything enqueued so far is done; at once without a
  /// stream. Never blocks. Errors, with which `lease` stays the caller's: FailedPrecondition (the
  /// stream is being captured), InvalidArgument (it is gone), Unavailable (a dead GPU).
  absl::Status ReleaseAfter(Lease&& lease);
  /// Runs `work` on the stream, in order. The call runs `work` at once on a GPU, and the stream
  /// orders what that enqueues. The call drops `work` without a stream, and after the Runtime's
  /// destructor.
  void Enqueue(std::function<void()> work);
  /// Blocks until everything enqueued so far is done. REQUIRES: not called by the stream's own
  /// work.
  void Synchronize();

 private:
  friend class Op;
  friend class Runtime;
  explicit StreamRef(std::shared_ptr<internal::StreamState> state);
  std::shared_ptr<internal::StreamState> state_;
};

}  // namespace sluice
