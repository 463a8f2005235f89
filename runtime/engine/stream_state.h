#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "runtime/device/device.h"

namespace sluice::internal {

/// A stream that the user may hold longer than the Runtime. Threads: any.
class StreamState {
 public:
  explicit StreamState(std::unique_ptr<device::Stream> stream) : stream_(std::move(stream)) {}

  /// Null after Close.
  std::shared_ptr<device::Stream> Get() const {
    base::MutexLock lock(mutex_);
    return stream_;
  }

  /// Drains the stream and lets it go; everything asked of it later is dropped.
  void Close() {
    std::shared_ptr<device::Stream> stream;
    {
      base::MutexLock lock(mutex_);
      stream.swap(stream_);
    }
    if (stream != nullptr) stream->Synchronize();
  }

 private:
  mutable base::Mutex mutex_;
  std::shared_ptr<device::Stream> stream_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::internal
