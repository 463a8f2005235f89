#pragma once

#include <cstddef>

#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::engine {

/// Number of streams that still have work or may get some. A Runtime that shuts down waits until it
/// is zero. Threads: any.
class StreamCount {
 public:
  void Add() {
    base::MutexLock lock(mutex_);
    ++streams_;
  }
  void Remove() {
    base::MutexLock lock(mutex_);
    --streams_;
    changed_.NotifyAll();
  }
  void WaitForNone() {
    base::MutexLock lock(mutex_);
    while (streams_ > 0) changed_.Wait(mutex_);
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::size_t streams_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice::engine
