#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/owner_process.h"
#include "runtime/device/device.h"
#include "runtime/engine/api/stream_count.h"

namespace sluice::internal {

/// A stream that the user may hold longer than the Runtime, and may let go anywhere, even in the
/// stream's own work. Threads: any.
class StreamState {
 public:
  /// `count` counts the stream until it is drained. `device`: null for a stream of none.
  StreamState(std::unique_ptr<device::Stream> stream,
              const device::Device* device,
              std::shared_ptr<engine::StreamCount> count)
      : device_(device), stream_(std::move(stream)), count_(std::move(count)) {
    count_->Add();
  }

  ~StreamState() {
    base::MutexLock lock(mutex_);
    if (stream_ == nullptr) return;
    const bool goes_on = stream_->InOwnWork() || stream_->adopted();
    const auto drained = [count = count_](const absl::Status&) { count->Remove(); };
    if (goes_on && stream_->Notify(drained).ok()) return;
    stream_.reset();  // drains
    count_->Remove();
  }
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  /// Returns null after Close, and in a child of the process.
  std::shared_ptr<device::Stream> Get() const {
    if (!owner_.IsThis()) return nullptr;
    base::MutexLock lock(mutex_);
    return stream_;
  }

  /// The device that has the stream. When Get() is null the device may be gone.
  const device::Device* device() const { return device_; }

  /// Drains the stream and lets it go. Later requests to the stream are dropped.
  void Close() {
    std::shared_ptr<device::Stream> stream;
    {
      base::MutexLock lock(mutex_);
      stream.swap(stream_);
    }
    if (stream == nullptr) return;
    stream->Synchronize();
    stream.reset();
    count_->Remove();
  }

 private:
  const base::OwnerProcess owner_;
  const device::Device* const device_;
  mutable base::Mutex mutex_;
  std::shared_ptr<device::Stream> stream_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<engine::StreamCount> count_;
};

}  // namespace sluice::internal
