#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/cond_var.h"
#include "base/mutex.h"
#include "sluice/events.h"
#include "sluice/op.h"

namespace sluice::engine {

/// Sums the time that threads spend blocked for tickets and hands each interval to the trace sink.
/// Threads: any. Lifetime: tickets may hold it longer than the Runtime, whose user owns the sink.
class WaitMeter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitMeter(TraceSink trace) : trace_(std::move(trace)), closed_(!trace_) {}

  /// Adds one interval. `writing`: the part of it that was spent waiting for writes.
  void Add(const std::string& op,
           Clock::time_point begin,
           Clock::time_point end,
           std::chrono::nanoseconds writing) {
    const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin);
    {
      const base::MutexLock lock(sums_mutex_);
      sums_.write += writing;
      sums_.read += spent - writing;
    }
    if (!EnterSink()) return;
    trace_(TraceSpan{"stall", op, begin, end});
    LeaveSink();
  }
  WaitTimes times() const {
    const base::MutexLock lock(sums_mutex_);
    return {.read_seconds = std::chrono::duration<double>(sums_.read).count(),
            .write_seconds = std::chrono::duration<double>(sums_.write).count()};
  }

  /// Ends the calls of the sink: waits until those that have begun return.
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

  struct Sums {
    std::chrono::nanoseconds read{};
    std::chrono::nanoseconds write{};
  };

  const TraceSink trace_;
  mutable base::Mutex sums_mutex_;
  Sums sums_ ABSL_GUARDED_BY(sums_mutex_);
  base::Mutex mutex_;
  base::CondVar left_;
  int in_sink_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
