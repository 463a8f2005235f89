#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Sums the time that threads spend blocked for tickets and hands each interval to the trace sink.
/// Threads: any. Lifetime: tickets may hold it longer than the Runtime, whose user owns the sink.
class WaitMeter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitMeter(TraceSink trace) : trace_(std::move(trace)), closed_(!trace_) {}

  void Add(const std::string& op, Clock::time_point begin, Clock::time_point end) {
    const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin);
    nanoseconds_ += static_cast<std::uint64_t>(spent.count());
    if (!EnterSink()) return;
    trace_(TraceSpan{"stall", op, begin, end});
    LeaveSink();
  }
  double seconds() const { return static_cast<double>(nanoseconds_) / 1e9; }

  /// From now on the sink is not called: waits until calls that have begun return.
  void CloseSink() {
    base::MutexLock lock(mutex_);
    closed_ = true;
    while (in_sink_ > 0) left_.Wait(mutex_);
  }

 private:
  bool EnterSink() {
    base::MutexLock lock(mutex_);
    if (closed_) return false;
    ++in_sink_;
    return true;
  }
  void LeaveSink() {
    base::MutexLock lock(mutex_);
    if (--in_sink_ == 0) left_.NotifyAll();
  }

  const TraceSink trace_;
  std::atomic<std::uint64_t> nanoseconds_{0};
  base::Mutex mutex_;
  base::CondVar left_;
  int in_sink_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
