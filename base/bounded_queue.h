#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "base/check.h"
#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::base {

/// A bounded queue with several producers and consumers.
/// Threads: all methods may be called from any thread.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {
    SLUICE_CHECK(capacity > 0, "a bounded queue holds at least one item");
  }

  /// Blocks while the queue is full; false when it is closed.
  bool Push(T item) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.size() >= capacity_) not_full_.Wait(mutex_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    not_empty_.NotifyOne();
    return true;
  }

  /// Takes one item, blocking while there is none; false once the queue is closed and empty.
  bool Pop(T* out) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) not_empty_.Wait(mutex_);
    if (items_.empty()) return false;
    *out = std::move(items_.front());
    items_.pop_front();
    not_full_.NotifyOne();
    return true;
  }

  /// No more pushes; the consumer drains what is left.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    not_empty_.NotifyAll();
    not_full_.NotifyAll();
  }

 private:
  const std::size_t capacity_;
  Mutex mutex_;
  CondVar not_empty_;
  CondVar not_full_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::base
