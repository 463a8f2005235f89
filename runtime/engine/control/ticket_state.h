#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/owner_process.h"
#include "runtime/core/types.h"
#include "runtime/core/waits.h"
#include "runtime/device/device.h"
#include "runtime/engine/api/lease_state.h"
#include "runtime/engine/api/op_state.h"
#include "runtime/engine/api/request_builder.h"
#include "runtime/engine/api/stream_state.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/wait_meter.h"
#include "sluice/op.h"

namespace sluice::internal {

/// The answer to one AcquireAll, shared by the user's Ticket and the core thread.
/// Threads: the user's methods from one thread at a time, the core thread's beside them.
class TicketState {
 public:
  using Clock = std::chrono::steady_clock;

  /// Parts of the Runtime that a ticket uses. All outlive the Runtime but `tiers`, which is used
  /// before Revoke only.
  struct Context {
    std::shared_ptr<engine::Mailbox> mailbox;
    std::shared_ptr<engine::WaitMeter> waits;
    const engine::TierSet* tiers = nullptr;
    const device::Device* device = nullptr;  ///< identity of the device, which may be gone
    bool fill_overwrite_with_nan = false;
  };

  TicketState(core::TicketNumber number,
              engine::TicketDraft draft,
              std::shared_ptr<OpState> op,
              Context context);
  /// A ticket that has failed before it reached the core.
  TicketState(std::shared_ptr<OpState> op, absl::Status error);

  core::TicketNumber number() const { return number_; }
  /// Immutable.
  const engine::TicketDraft& draft() const { return draft_; }
  const OpState& op() const { return *op_; }
  bool takes_under_way() const { return takes_under_way_.load(); }

  // The core thread's side.
  void Grant(std::vector<core::FrameIndex> frames);
  /// Fails the ticket unless it is granted, failed or cancelled already.
  void Fail(absl::Status error);
  /// Notes the cause that the ticket waits for from now on.
  void NoteWait(core::WaitFor waits_for);
  /// Ends the ticket because the tiers go away: it hands out no leases from here on. True: the
  /// leases had been taken.
  bool Revoke();

  // The user's side. In a child of the process the ticket has failed, with FailedPrecondition.
  bool Ready() const;
  absl::Status Wait(Clock::time_point deadline);
  /// Wait, after which work enqueued on the stream finds the bytes that are still on their way to
  /// hbm. Errors: those of Stream::WaitForCopies, too; then the ticket has failed.
  absl::Status WaitOn(const StreamState& stream);
  absl::StatusOr<std::vector<std::shared_ptr<LeaseState>>> Take();
  WaitTimes waited() const;
  /// Gives up the request unless its leases were taken. Never blocks.
  void Cancel();

 private:
  enum class Phase { kPending, kGranted, kTaken, kFailed };

  bool WaitWhilePending(Clock::time_point deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::span<std::byte>> SpansOf(const engine::LeaseDraft& access) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsPinned(const engine::LeaseDraft& access) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::uint32_t> NodesOf(const engine::LeaseDraft& access) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<std::shared_ptr<LeaseState>>> MakeLeases() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Waits until the device has filled the frame.
  void FillFrameWithNan(core::TierIndex tier, core::FrameIndex frame) const;
  void FillWithNan(const engine::LeaseDraft& access,
                   const std::vector<std::span<std::byte>>& spans) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool MayGoBehindCopies(const StreamState& stream) const;
  absl::Status PutBehindCopies(const StreamState& stream) const;
  std::vector<core::FrameIndex> FramesOfHbm() const;
  /// Fails a ticket whose leases were not taken, and returns the error.
  absl::Status GiveUp(absl::Status error);

  const base::OwnerProcess owner_;
  const core::TicketNumber number_ = 0;
  const engine::TicketDraft draft_;
  const std::shared_ptr<OpState> op_;
  const Context context_;
  std::atomic<bool> takes_under_way_{false};
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kPending;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  core::WaitSplit split_ ABSL_GUARDED_BY(mutex_);
  std::vector<core::FrameIndex> frames_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::internal
