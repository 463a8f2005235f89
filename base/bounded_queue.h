#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::base {

/// A bounded multi-producer queue with one consumer that takes everything at once.
/// Threads: all methods may be called from any thread.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {
    SLUICE_CHECK(capacity > 0, "a bounded queue holds at least one item");
  }

  /// False when the queue is full or closed ("queue full" is an outcome, not an error).
  bool TryPush(T item) {
    MutexLock lock(mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    PushLocked(std::move(item));
    return true;
  }

  /// Blocks while the queue is full; false when it is closed.
  bool Push(T item) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.size() >= capacity_) not_full_.Wait(mutex_);
    if (closed_) return false;
    PushLocked(std::move(item));
    return true;
  }

  /// Appends everything queued to `out`, blocking while there is nothing; false once the queue is
  /// closed and empty.
  bool PopAll(std::vector<T>* out) {
    MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) not_empty_.Wait(mutex_);
    if (items_.empty()) return false;
    for (T& item : items_) out->push_back(std::move(item));
    items_.clear();
    not_full_.NotifyAll();
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

  std::size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  void PushLocked(T item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    items_.push_back(std::move(item));
    not_empty_.NotifyOne();
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  CondVar not_full_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::base
