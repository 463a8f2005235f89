#pragma once

#include <cstdint>

#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::io {

/// Role of the calling thread for page stores. A `done` callback that calls back into a store must
/// not wait for room, which only internal threads can make. Nor may it hand work to the pool whose
/// thread it occupies.
enum class ThreadRole : std::uint8_t { kCaller, kIoThread, kWorker };

/// Sets the role of the calling thread for a scope.
class ScopedThreadRole {
 public:
  explicit ScopedThreadRole(ThreadRole role);
  ~ScopedThreadRole();
  ScopedThreadRole(const ScopedThreadRole&) = delete;
  ScopedThreadRole& operator=(const ScopedThreadRole&) = delete;

  static ThreadRole Current();

 private:
  const ThreadRole before_;
};

/// Counts what is outstanding and bounds it. Threads: any.
class Admission {
 public:
  explicit Admission(std::uint32_t operations_max) : operations_max_(operations_max) {}

  /// Waits while `operations_max` are outstanding; internal threads pass at once, each at most for
  /// the operation that it has just finished.
  void Enter();
  void Leave();
  /// Waits until nothing is outstanding.
  void Drain();

 private:
  const std::uint32_t operations_max_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::uint32_t outstanding_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice::io
