#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "runtime/engine/control/messages.h"

namespace sluice::engine {

/// Error for callers after the shutdown.
inline absl::Status ShutDownError() { return absl::CancelledError("the runtime has shut down"); }

/// The core thread's one queue, first in, first out. Requests are bounded: beyond the bound tickets
/// wait aside in order, and other requests block. Notices are always taken. Both are in one queue,
/// so that the core sees a thread's release before its next request.
/// Threads: any; PopAll from the core thread only.
class Mailbox {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit Mailbox(std::size_t capacity);

  /// Queues a request, and may wait for room. False: the mailbox is closed, and the message
  /// dropped.
  bool Push(Message request);
  /// Queues a request and never waits, behind notices of leases that the same thread gives back.
  /// False: the mailbox is closed to requests.
  bool Offer(AcquireRequest request, std::span<const ReleaseNotice> before = {});
  /// Takes back a ticket that waits aside. False: the ticket is not there.
  bool Withdraw(core::TicketNumber ticket);
  /// Queues a notice and never blocks. A notice is dropped once the core thread has returned.
  void Post(Message notice);

  /// Appends everything queued to `out`. Blocks while the queue is empty and `deadline` has not
  /// passed.
  void PopAll(std::vector<Message>* out, Deadline deadline);

  /// Refuses requests from now on; returns the tickets that waited aside.
  std::vector<AcquireRequest> CloseRequests();
  /// Refuses every message from now on, and drops the queued ones.
  void Close();

 private:
  void RefillLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AppendLocked(Message message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::size_t capacity_;
  base::Mutex mutex_;
  base::CondVar not_empty_;
  base::CondVar not_full_;
  std::deque<Message> items_ ABSL_GUARDED_BY(mutex_);
  std::size_t requests_ ABSL_GUARDED_BY(mutex_) = 0;  ///< number of requests among the items
  std::deque<AcquireRequest> aside_ ABSL_GUARDED_BY(mutex_);
  bool requests_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::engine
