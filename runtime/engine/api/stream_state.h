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
  /// `count` counts the stream until it is drained or, if it is adopted, until what it keeps is
  /// done. `device`: null for a stream of none.
  StreamState(std::unique_ptr<device::Stream> stream,
              const device::Device* device,
              std::shared_ptr<engine::StreamCount> count)
      : device_(device), stream_(std::move(stream)), count_(std::move(count)) {
    count_->Add();
  }

  ~StreamState() {
    base::MutexLock lock(mutex_);
    if (stream_ == nullptr) return;
    const auto drained = [count = count_](const absl::Status&) { count->Remove(); };
    if (stream_->InOwnWork() && stream_->Notify(drained).ok()) return;
    stream_.reset();  // drains what is not the user's
    count_->Remove();
  }
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  /// Returns null after Close, and in a child of the process. The Runtime waits until the result is
  /// dropped.
  std::shared_ptr<device::Stream> Get() const {
    if (!owner_.IsThis()) return nullptr;
    base::MutexLock lock(mutex_);
    if (stream_ == nullptr) return nullptr;
    count_->Add();
    return {stream_.get(), [kept = stream_, count = count_](device::Stream*) mutable {
              kept.reset();
              count->Remove();
            }};
  }

  /// Does Stream::Notify, and has the Runtime wait for `done`. `done` is called here, and the
  /// result is ok, where Get() returns null.
  absl::Status Notify(device::DoneFn done) {
    const std::shared_ptr<device::Stream> stream = Get();
    if (stream == nullptr) {
      done(absl::OkStatus());
      return absl::OkStatus();
    }
    count_->Add();
    absl::Status taken = stream->Notify(
        [count = count_, done = std::move(done)](const absl::Status& status) mutable {
          done(status);
          done = nullptr;  // objects that it keeps go before the Runtime
          count->Remove();
        });
    if (!taken.ok()) count_->Remove();
    return taken;
  }

  /// The device that has the stream. When Get() is null the device may be gone.
  const device::Device* device() const { return device_; }

  /// Drains the stream, if it is not the user's, and lets it go. Later requests to the stream are
  /// dropped.
  void Close() {
    std::shared_ptr<device::Stream> stream;
    {
      base::MutexLock lock(mutex_);
      stream.swap(stream_);
    }
    if (stream == nullptr) return;
    if (!stream->adopted()) stream->Synchronize();
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
