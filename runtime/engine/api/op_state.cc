#include "runtime/engine/api/op_state.h"

#include <algorithm>

namespace sluice::internal {

void OpState::Start(Clock::time_point now) {
  base::MutexLock lock(mutex_);
  if (!started_) started_ = now;
}

void OpState::BeginWait(Clock::time_point now) {
  base::MutexLock lock(mutex_);
  if (waiting_++ == 0) waiting_since_ = now;
}

void OpState::EndWait(Clock::time_point now) {
  base::MutexLock lock(mutex_);
  if (--waiting_ == 0) AddStall(now);
}

/// Threads read the clock before they come here, so times may be a little out of order.
void OpState::AddStall(Clock::time_point until) {
  if (!started_) return;
  const Clock::time_point since = std::max(waiting_since_, *started_);
  if (until > since) stalled_ += until - since;
}

void OpState::End(Clock::time_point now) {
  if (!owner_.IsThis()) return;
  base::MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  if (!started_) return;
  if (waiting_ > 0) AddStall(now);
  const std::chrono::duration<double> spent = now - *started_ - stalled_;
  record_.SetSeconds(std::max(spent.count(), 0.0));
}

}  // namespace sluice::internal
