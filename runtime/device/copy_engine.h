#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/cond_var.h"
#include "base/mutex.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// One direction of a modelled link. The class is pure: the caller brings the time. A copy occupies
/// the link for bytes / rate, from the time when the link is free, or from its submission, if that
/// is later. It is complete `latency` after that. The latency does not occupy the link.
class LinkTimeline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Slot {
    TimePoint start;     ///< time at which the bytes begin to move
    TimePoint complete;  ///< time at which the copy is done
  };

  /// Sets the rate and latency of the link. At rate 0 copies take no time.
  void SetRate(double bytes_per_second, double latency_seconds);
  /// Time at which a copy submitted at `submitted` may start.
  TimePoint StartOf(TimePoint submitted) const { return std::max(submitted, next_free_); }
  /// Occupies the link for the copy.
  Slot Take(TimePoint submitted, std::uint64_t bytes);

 private:
  double bytes_per_second_ = 0;
  std::chrono::steady_clock::duration latency_{};
  TimePoint next_free_{};
};

/// Copies bytes on one thread, in order of submission, paced by a timeline. The time of a copy
/// counts from its submission. So a thread that wakes late makes up for it, and a busy link keeps
/// its rate. Threads: any.
class CopyEngine {
 public:
  struct Options {
    std::string thread_name;
    std::vector<int> cpus;
  };

  CopyEngine() = default;
  ~CopyEngine();  ///< completes all copies, at the modelled pace
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  /// Starts the thread. Called once, before any other method. Errors: ResourceExhausted (the thread
  /// cannot be started).
  absl::Status Start(const Options& options);

  /// Sets rate and latency for copies that have not started.
  void SetRate(double bytes_per_second, double latency_seconds);

  /// Submits a copy. `done` runs on the thread. REQUIRES: equal sizes, no overlap; both spans stay
  /// valid until `done`.
  void Submit(std::span<const std::byte> source, std::span<std::byte> target, DoneFn done);

 private:
  using TimePoint = LinkTimeline::TimePoint;
  struct Copy {
    std::span<const std::byte> source;
    std::span<std::byte> target;
    DoneFn done;
    TimePoint submitted;
    TimePoint complete;
  };

  void Run();
  /// Waits for the next work. Returns false when there is none left and never will be.
  bool Next(std::deque<Copy>* completed, std::deque<Copy>* started);
  bool TakeDue(TimePoint now, std::deque<Copy>* completed, std::deque<Copy>* started)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  base::CondVar changed_;
  LinkTimeline timeline_ ABSL_GUARDED_BY(mutex_);
  std::deque<Copy> queued_ ABSL_GUARDED_BY(mutex_);  ///< copies whose bytes have not moved yet
  /// Copies whose bytes have moved, not complete by the model.
  std::deque<Copy> landing_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sluice::device
