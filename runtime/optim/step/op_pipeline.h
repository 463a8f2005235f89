#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/runtime.h"

namespace sluice::optim {

/// An op that has its pages. Its destructor releases them, then ends the op.
struct RunningOp {
  Op op;
  std::vector<Lease> leases;
};

/// Deadline for pages on their way that may have to wait for leases of the caller.
inline Ticket::Deadline Soon() {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
}

/// Ops of one lane, one after another. Each is asked for some time ahead of its turn, so that pages
/// come and go while earlier ops compute. Threads: externally synchronised. Lifetime: the runtime
/// outlives the pipeline; the destructor gives up the ops that Next did not return.
class OpPipeline {
 public:
  OpPipeline(Runtime& runtime, std::string lane) : runtime_(runtime), lane_(std::move(lane)) {}

  void Ask(const std::string& name, const std::vector<Access>& accesses);
  std::size_t asked() const { return asked_.size(); }
  /// Blocks until the op that was asked for first has its pages. Errors: those of Ticket::Take; the
  /// op is over then. REQUIRES: asked() > 0.
  absl::StatusOr<RunningOp> Next() { return NextBefore(Ticket::Deadline::max()); }
  /// Next, but an op that has not its pages by then is given up. Errors: DeadlineExceeded, too.
  absl::StatusOr<RunningOp> NextBefore(Ticket::Deadline deadline);
  /// Whether Next would not block. REQUIRES: asked() > 0.
  bool NextIsReady() const { return asked_.front().ticket.Ready(); }
  /// Gives up the op that was asked for first. REQUIRES: asked() > 0.
  void DropNext() { asked_.pop_front(); }
  /// Times that Next has blocked so far.
  const WaitTimes& waited() const { return waited_; }

 private:
  struct Asked {
    Op op;
    Ticket ticket;
  };
  Runtime& runtime_;
  const std::string lane_;
  std::deque<Asked> asked_;
  WaitTimes waited_;
};

}  // namespace sluice::optim
