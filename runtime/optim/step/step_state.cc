#include "runtime/optim/step/step_state.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::optim {

absl::Status CheckProcess(const base::OwnerProcess& owner) {
  if (owner.IsThis()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the optimizer belongs to the process that made it, and this is a child of that process: a "
      "child makes a runtime of its own, and its optimizers");
}

}  // namespace sluice::optim

namespace sluice::internal {

std::shared_ptr<StepState> StepState::Create(std::size_t groups) {
  return {new StepState(groups), [](StepState* state) {
            if (state->owner_.IsThis()) delete state;
          }};
}

void StepState::Expect(std::uint32_t group, std::uint64_t parts) {
  const base::MutexLock lock(mutex_);
  groups_[group].left += parts;
  groups_[group].expected = true;
}

void StepState::PartDone(std::uint32_t group, const std::optional<optim::Failure>& failure) {
  const base::MutexLock lock(mutex_);
  Group& state = groups_[group];
  if (failure && !state.failure) state.failure = failure;
  if (failure && !failure_) failure_ = failure;
  if (--state.left == 0) changed_.NotifyAll();
}

void StepState::Finish(const OptimizerStep& result) {
  const base::MutexLock lock(mutex_);
  result_ = result;
  over_ = true;
  changed_.NotifyAll();
}

void StepState::Fail(const absl::Status& status) {
  const base::MutexLock lock(mutex_);
  if (!failure_) failure_ = optim::Failure::From(status);
  over_ = true;
  changed_.NotifyAll();
}

bool StepState::over() const {
  if (!owner_.IsThis()) return true;
  const base::MutexLock lock(mutex_);
  return over_;
}

bool StepState::failed() const {
  const base::MutexLock lock(mutex_);
  return failure_.has_value();
}

absl::StatusOr<OptimizerStep> StepState::Wait(Ticket::Deadline deadline) {
  SLUICE_RETURN_IF_ERROR(optim::CheckProcess(owner_));
  const base::MutexLock lock(mutex_);
  while (!over_) {
    if (changed_.WaitUntil(mutex_, deadline)) continue;
    if (!over_) return absl::DeadlineExceededError("the step is not over yet");
  }
  if (failure_) return failure_->ToStatus();
  return result_;
}

bool StepState::ReadyLocked(GroupId group) const {
  if (over_ || group.value >= groups_.size()) return true;
  const Group& state = groups_[group.value];
  return state.expected && state.left == 0;
}

bool StepState::Ready(GroupId group) const {
  if (!owner_.IsThis()) return true;
  const base::MutexLock lock(mutex_);
  return ReadyLocked(group);
}

absl::Status StepState::WaitFor(GroupId group, Ticket::Deadline deadline) {
  SLUICE_RETURN_IF_ERROR(optim::CheckProcess(owner_));
  const base::MutexLock lock(mutex_);
  if (group.value >= groups_.size()) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("there is no group {} in this step", group.value)));
  }
  while (!ReadyLocked(group)) {
    if (changed_.WaitUntil(mutex_, deadline) || ReadyLocked(group)) continue;
    return absl::DeadlineExceededError("the group is not updated yet");
  }
  const Group& state = groups_[group.value];
  if (state.failure) return state.failure->ToStatus();
  return over_ && failure_ && state.left > 0 ? failure_->ToStatus() : absl::OkStatus();
}

}  // namespace sluice::internal

namespace sluice {

namespace {

absl::Status NoStep() {
  return absl::FailedPreconditionError("this StepHandle is of no step; Step gives one that is");
}

}  // namespace

StepHandle::StepHandle() = default;
StepHandle::StepHandle(const StepHandle&) = default;
StepHandle& StepHandle::operator=(const StepHandle&) = default;
StepHandle::StepHandle(StepHandle&&) noexcept = default;
StepHandle& StepHandle::operator=(StepHandle&&) noexcept = default;
StepHandle::~StepHandle() = default;
StepHandle::StepHandle(std::shared_ptr<internal::StepState> state) : state_(std::move(state)) {}

bool StepHandle::Ready() const { return state_ == nullptr || state_->over(); }
bool StepHandle::Ready(GroupId group) const { return state_ == nullptr || state_->Ready(group); }

absl::StatusOr<OptimizerStep> StepHandle::Wait(Ticket::Deadline deadline) {
  if (state_ == nullptr) return NoStep();
  return state_->Wait(deadline);
}

absl::Status StepHandle::WaitFor(GroupId group, Ticket::Deadline deadline) {
  if (state_ == nullptr) return NoStep();
  return state_->WaitFor(group, deadline);
}

}  // namespace sluice
