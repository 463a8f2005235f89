#pragma once

#include <chrono>
#include <cstdint>

#include "base/mutex.h"

namespace sluice::io {

/// The rate that a drive shows while it is busy.
/// Threads: externally synchronised.
class RateMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Rate of a drive that has not shown its own, in bytes per second.
  static constexpr double kUnknownRate = 1e9;

  /// `rate`: rate to begin with; 0 if it is unknown.
  explicit RateMeter(double rate = 0) : rate_(rate) {}

  void Begin(Clock::time_point now);
  void End(std::uint64_t bytes, Clock::time_point now);

  /// Bytes per second, smoothed over windows of kWindow operations; 0 while unknown.
  double rate() const { return rate_; }
  /// Rate at `now`: lower if an operation of `bytes` is taking longer than usual; kUnknownRate
  /// while unknown.
  double RateAt(Clock::time_point now, std::uint64_t bytes) const;

 private:
  static constexpr int kWindow = 16;
  static constexpr double kShareOfNew = 0.3;

  double rate_;
  int outstanding_ = 0;
  Clock::time_point busy_since_;
  double busy_seconds_ = 0;
  std::uint64_t bytes_ = 0;
  int operations_ = 0;
};

/// A meter on the real clock for several threads.
class SharedRateMeter {
 public:
  void Begin() {
    base::MutexLock lock(mutex_);
    meter_.Begin(RateMeter::Clock::now());
  }
  void End(std::uint64_t bytes) {
    base::MutexLock lock(mutex_);
    meter_.End(bytes, RateMeter::Clock::now());
  }
  double rate() const {
    base::MutexLock lock(mutex_);
    return meter_.rate();
  }

 private:
  mutable base::Mutex mutex_;
  RateMeter meter_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::io
