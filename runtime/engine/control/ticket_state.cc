#include "runtime/engine/control/ticket_state.h"

#include <algorithm>
#include <cstring>
#include <latch>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "runtime/engine/report/profiler_ranges.h"
#include "runtime/engine/setup/process_bound.h"

namespace sluice::internal {
namespace {

/// Null where the lease writes no view.
absl::StatusOr<std::unique_ptr<engine::WriteWindow>> OpenWindow(const engine::LeaseDraft& access) {
  const std::shared_ptr<engine::Segment> segment = access.written_view.lock();
  if (segment == nullptr) return nullptr;
  return engine::WriteWindow::Open(segment, access.first_page, access.pages);
}

/// A status that shares nothing with `status`. absl counts references to the parts of a status
/// inside its library, where ThreadSanitizer does not see it. So threads share no status.
absl::Status OwnCopy(const absl::Status& status) {
  return status.ok() ? absl::OkStatus() : absl::Status(status.code(), status.message());
}

core::WaitSplit::Time SinceStart(TicketState::Clock::time_point when) {
  return std::chrono::duration_cast<core::WaitSplit::Time>(when.time_since_epoch());
}

}  // namespace

TicketState::TicketState(core::TicketNumber number,
                         engine::TicketDraft draft,
                         std::shared_ptr<OpState> op,
                         Context context)
    : number_(number), draft_(std::move(draft)), op_(std::move(op)), context_(std::move(context)) {}

TicketState::TicketState(std::shared_ptr<OpState> op, absl::Status error)
    : op_(std::move(op)), phase_(Phase::kFailed), error_(std::move(error)) {}

void TicketState::Grant(std::vector<core::FrameIndex> frames) {
  SLUICE_CHECK(frames.size() == draft_.requests.size(), "a grant names one frame per request");
  base::MutexLock lock(mutex_);
  if (phase_ != Phase::kPending) return;  // cancelled meanwhile; the notice is on its way
  frames_ = std::move(frames);
  phase_ = Phase::kGranted;
  split_.Change(core::WaitFor::kRead, SinceStart(Clock::now()));  // no longer for a write
  changed_.NotifyAll();
}

void TicketState::Fail(absl::Status error) {
  base::MutexLock lock(mutex_);
  if (phase_ != Phase::kPending) return;
  error_ = std::move(error);
  phase_ = Phase::kFailed;
  changed_.NotifyAll();
}

void TicketState::NoteWait(core::WaitFor waits_for) {
  base::MutexLock lock(mutex_);
  if (phase_ == Phase::kPending) split_.Change(waits_for, SinceStart(Clock::now()));
}

bool TicketState::Revoke() {
  base::MutexLock lock(mutex_);
  if (phase_ == Phase::kTaken) return true;
  if (phase_ == Phase::kFailed) return false;
  error_ = absl::CancelledError("the runtime has shut down");
  phase_ = Phase::kFailed;
  changed_.NotifyAll();
  return false;
}

bool TicketState::Ready() const {
  if (!owner_.IsThis()) return true;
  base::MutexLock lock(mutex_);
  return phase_ != Phase::kPending;
}

bool TicketState::WaitWhilePending(Clock::time_point deadline) {
  while (phase_ == Phase::kPending) {
    if (deadline == Clock::time_point::max()) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, deadline)) {
      return phase_ != Phase::kPending;
    }
  }
  return true;
}

absl::Status TicketState::Wait(Clock::time_point deadline) {
  SLUICE_RETURN_IF_ERROR(engine::CheckProcess(owner_));
  bool in_time = true;
  absl::Status error;
  Clock::time_point begin;
  Clock::time_point end;
  core::WaitSplit::Time writing;
  {
    base::MutexLock lock(mutex_);
    if (phase_ != Phase::kPending) return OwnCopy(error_);
    begin = Clock::now();
    op_->BeginWait(begin);
    split_.Begin(SinceStart(begin));
    const core::WaitSplit::Time before = split_.of(core::WaitFor::kWrite);
    const auto range = engine::ProfilerRange::Begin(engine::ProfilerCategory::kStall,
                                                    [&] { return op_->identity().name; });
    in_time = WaitWhilePending(deadline);
    range.End();
    error = OwnCopy(error_);
    end = Clock::now();
    split_.End(SinceStart(end));
    writing = split_.of(core::WaitFor::kWrite) - before;
  }
  op_->EndWait(end);
  context_.waits->Add(op_->identity().name, begin, end, writing);
  if (!in_time) return absl::DeadlineExceededError("the ticket is not ready yet");
  return error;
}

std::vector<core::FrameIndex> TicketState::FramesOfHbm() const {
  const base::MutexLock lock(mutex_);
  std::vector<core::FrameIndex> frames;
  if (phase_ == Phase::kFailed) return frames;  // the tiers may be gone
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    const bool of_hbm = context_.tiers->id(draft_.requests[i].tier) == kHbm0;
    if (of_hbm) frames.push_back(frames_[i]);
  }
  return frames;
}

bool TicketState::MayGoBehindCopies(const StreamState& stream) const {
  if (stream.device() == nullptr || stream.device() != context_.device) return false;
  const auto current = stream.Get();
  return current != nullptr && current->CanWaitForCopies();
}

absl::Status TicketState::PutBehindCopies(const StreamState& stream) const {
  // The tiers stay while this is held.
  const auto current = stream.Get();
  return current == nullptr ? engine::ShutDownError() : current->WaitForCopies(FramesOfHbm());
}

absl::Status TicketState::WaitOn(const StreamState& stream) {
  SLUICE_RETURN_IF_ERROR(engine::CheckProcess(owner_));
  if (!MayGoBehindCopies(stream)) return Wait(Clock::time_point::max());
  takes_under_way_.store(true);
  context_.mailbox->Post(engine::EventRequest{core::GrantUnderWay{number_}});
  SLUICE_RETURN_IF_ERROR(Wait(Clock::time_point::max()));
  absl::Status behind = PutBehindCopies(stream);
  // The pages are on their way, and nothing is behind their copies.
  return behind.ok() ? behind : GiveUp(std::move(behind));
}

absl::Status TicketState::GiveUp(absl::Status error) {
  {
    const base::MutexLock lock(mutex_);
    if (phase_ != Phase::kGranted) return error;
    phase_ = Phase::kFailed;
    error_ = OwnCopy(error);
  }
  context_.mailbox->Post(engine::CancelNotice{number_});
  return error;
}

std::vector<std::span<std::byte>> TicketState::SpansOf(const engine::LeaseDraft& access) const {
  std::vector<std::span<std::byte>> spans;
  spans.reserve(access.pages);
  const engine::MemoryTier& memory = *context_.tiers->memory(access.tier);
  std::uint64_t left = access.range.bytes;
  std::uint64_t offset = access.first_offset;
  for (std::uint32_t i = 0; i < access.pages; ++i) {
    const std::span<std::byte> frame = memory.Frame(frames_[access.first_request + i]);
    const std::uint64_t bytes = std::min<std::uint64_t>(left, frame.size() - offset);
    spans.push_back(frame.subspan(offset, bytes));
    left -= bytes;
    offset = 0;
  }
  return spans;
}

std::vector<std::uint32_t> TicketState::NodesOf(const engine::LeaseDraft& access) const {
  const engine::MemoryTier& memory = *context_.tiers->memory(access.tier);
  std::vector<std::uint32_t> nodes;
  nodes.reserve(access.pages);
  for (std::uint32_t i = 0; i < access.pages; ++i) {
    nodes.push_back(memory.NodeOf(frames_[access.first_request + i]));
  }
  return nodes;
}

bool TicketState::IsPinned(const engine::LeaseDraft& access) const {
  const engine::MemoryTier& memory = *context_.tiers->memory(access.tier);
  for (std::uint32_t i = 0; i < access.pages; ++i) {
    if (!memory.IsPinned(frames_[access.first_request + i])) return false;
  }
  return access.pages > 0;
}

void TicketState::FillFrameWithNan(core::TierIndex tier, core::FrameIndex frame) const {
  std::latch filled(1);
  // A device that cannot fill is dead, and says so elsewhere.
  context_.tiers->memory(tier)->Fill(
      frame, 0xff, [&](const absl::Status&) { filled.count_down(); });
  filled.wait();
}

void TicketState::FillWithNan(const engine::LeaseDraft& access,
                              const std::vector<std::span<std::byte>>& spans) const {
  if (!context_.fill_overwrite_with_nan || access.mode != AccessMode::kOverwrite) return;
  for (std::uint32_t i = 0; i < access.pages; ++i) {
    const core::PageRequest& request = draft_.requests[access.first_request + i];
    // All ones is a NaN in every float format. Elsewhere the access acts as a read-write one.
    if (request.mode != core::PageMode::kOverwrite) continue;
    if (context_.tiers->memory(access.tier)->host_accessible()) {
      std::memset(spans[i].data(), 0xff, spans[i].size());
    } else {
      FillFrameWithNan(access.tier, frames_[access.first_request + i]);
    }
  }
}

absl::StatusOr<std::vector<std::shared_ptr<LeaseState>>> TicketState::MakeLeases() const {
  std::vector<std::shared_ptr<LeaseState>> leases;
  leases.reserve(draft_.accesses.size());
  for (std::uint32_t i = 0; i < draft_.accesses.size(); ++i) {
    const engine::LeaseDraft& access = draft_.accesses[i];
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<engine::WriteWindow> window, OpenWindow(access));
    auto lease = engine::MakeOwned<LeaseState>(
        context_.mailbox,
        engine::ReleaseNotice{number_, i},
        LeaseState::Facts{.tensor = access.tensor->id,
                          .tier = access.tier_id,
                          .mode = access.mode,
                          .address = access.address,
                          .bytes = access.range.bytes,
                          .host_accessible = context_.tiers->memory(access.tier)->host_accessible(),
                          .pinned = access.address == nullptr && IsPinned(access),
                          .spans = SpansOf(access),
                          .nodes = NodesOf(access)},
        std::move(window));
    FillWithNan(access, lease->facts().spans);
    leases.push_back(std::move(lease));
  }
  return leases;
}

absl::StatusOr<std::vector<std::shared_ptr<LeaseState>>> TicketState::Take() {
  if (absl::Status status = Wait(Clock::time_point::max()); !status.ok()) return status;
  base::MutexLock lock(mutex_);
  if (phase_ == Phase::kFailed) return OwnCopy(error_);
  if (phase_ == Phase::kTaken) {
    return absl::FailedPreconditionError("the ticket's leases were taken before");
  }
  absl::StatusOr<std::vector<std::shared_ptr<LeaseState>>> leases = MakeLeases();
  if (!leases.ok()) {
    error_ = leases.status();
    phase_ = Phase::kFailed;
    context_.mailbox->Post(engine::CancelNotice{number_});
    return OwnCopy(error_);
  }
  phase_ = Phase::kTaken;
  op_->Start(Clock::now());
  return leases;
}

WaitTimes TicketState::waited() const {
  if (!owner_.IsThis()) return {};
  const base::MutexLock lock(mutex_);
  const auto seconds = [&](core::WaitFor waits_for) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::chrono::duration<double>(split_.of(waits_for)).count();
  };
  return {.read_seconds = seconds(core::WaitFor::kRead),
          .write_seconds = seconds(core::WaitFor::kWrite)};
}

void TicketState::Cancel() {
  if (!owner_.IsThis()) return;
  {
    base::MutexLock lock(mutex_);
    if (phase_ == Phase::kTaken || phase_ == Phase::kFailed) return;
    error_ = absl::CancelledError("the ticket was cancelled");
    phase_ = Phase::kFailed;
    changed_.NotifyAll();
  }
  if (context_.mailbox->Withdraw(number_)) return;
  context_.mailbox->Post(engine::CancelNotice{number_});
}

}  // namespace sluice::internal
