#include "runtime/optim/optimizer/current_step.h"

#include <utility>

#include "base/status.h"

namespace sluice::optim {

std::int64_t CurrentStep::done() const {
  const base::MutexLock lock(mutex_);
  return done_;
}

bool CurrentStep::failed() const {
  const base::MutexLock lock(mutex_);
  return phase_ == Phase::kFailed;
}

bool CurrentStep::was_released() const {
  const base::MutexLock lock(mutex_);
  return phase_ != Phase::kGathering;
}

void CurrentStep::Begin(std::size_t groups) { state_ = internal::StepState::Create(groups); }

absl::StatusOr<bool> CurrentStep::Release() {
  const base::MutexLock lock(mutex_);
  // A step may have ended since the last Outcome, so that the groups do not know it yet.
  if (phase_ == Phase::kReleased || phase_ == Phase::kOver) {
    return absl::FailedPreconditionError("a step is under way; wait for it first");
  }
  return std::exchange(phase_, Phase::kReleased) == Phase::kFailed;
}

void CurrentStep::OnOver(bool failed, bool skipped) {
  const base::MutexLock lock(mutex_);
  phase_ = failed ? Phase::kFailed : Phase::kOver;
  skipped_ = skipped;
  if (!failed && !skipped) ++done_;
}

CurrentStep::Outcome CurrentStep::TakeOutcome() {
  const base::MutexLock lock(mutex_);
  if (phase_ != Phase::kOver) return {.done = done_};
  phase_ = Phase::kGathering;
  state_ = nullptr;
  return {.done = done_, .over = true, .skipped = skipped_};
}

void CurrentStep::Cancel() {
  if (state_ == nullptr || state_->over()) return;
  state_->Fail(absl::CancelledError("the optimizer was destroyed"));
}

void CurrentStep::BeginLoad() {
  half_loaded_ = true;
  state_ = nullptr;
  const base::MutexLock lock(mutex_);
  phase_ = Phase::kGathering;
}

void CurrentStep::EndLoad(std::int64_t done) {
  half_loaded_ = false;
  const base::MutexLock lock(mutex_);
  done_ = done;
}

absl::Status CurrentStep::CheckLoaded() const {
  if (!half_loaded_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the last Load ended in the middle, so parameters and states are of different steps; Load "
      "again, this save or another one");
}

absl::Status CurrentStep::CheckIdle() const {
  SLUICE_RETURN_IF_ERROR(CheckLoaded());
  if (state_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      failed() ? "the last step failed in part; Step repeats what is missing of it, Load replaces "
                 "it"
               : "a step is under way; wait for it first (Step, then StepHandle::Wait)");
}

absl::Status CurrentStep::CheckReplaceable() const {
  absl::Status idle = CheckIdle();
  if (half_loaded_ || failed()) return absl::OkStatus();
  return idle;
}

}  // namespace sluice::optim
