#include "runtime/engine/op_state.h"

namespace sluice::internal {

void OpState::Start(Clock::time_point now) {
  base::MutexLock lock(mutex_);
  if (!started_) started_ = now;
}

void OpState::AddStall(Clock::duration stalled) {
  base::MutexLock lock(mutex_);
  if (started_) stalled_ += stalled;
}

void OpState::End(Clock::time_point now) {
  if (!owner_.IsThis()) return;
  base::MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  if (!started_) return;
  record_.SetSeconds(std::chrono::duration<double>(now - *started_ - stalled_).count());
}

}  // namespace sluice::internal
