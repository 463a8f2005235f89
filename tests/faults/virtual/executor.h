#pragma once

#include <chrono>
#include <deque>

#include "absl/functional/any_invocable.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "tests/faults/virtual/virtual_clock.h"

namespace sluice::faults {

/// Brings all events onto the thread of the test. Virtual time has no other thread.
class Executor {
 public:
  using Job = absl::AnyInvocable<void()>;

  virtual ~Executor() = default;
  /// Runs `job` later, in RunNext. Threads: any.
  virtual void Post(Job job) = 0;
  /// Runs the next job. Returns false if there is none. `expects`: another thread has work in
  /// flight and will post. Threads: that of the test.
  virtual bool RunNext(bool expects) = 0;
};

/// Executor in virtual time. A posted job takes a microsecond, and the clock decides the order.
class VirtualExecutor final : public Executor {
 public:
  explicit VirtualExecutor(VirtualClock& clock) : clock_(clock) {}
  void Post(Job job) override { clock_.After(std::chrono::microseconds(1), std::move(job)); }
  bool RunNext(bool) override { return clock_.RunNext(); }

 private:
  VirtualClock& clock_;
};

/// Real threads post.
class ThreadExecutor final : public Executor {
 public:
  void Post(Job job) override;
  bool RunNext(bool expects) override;

 private:
  base::Mutex mutex_;
  base::CondVar posted_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::faults
