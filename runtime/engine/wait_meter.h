#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "sluice/events.h"

namespace sluice::engine {

/// Sums the time that threads spend blocked for tickets and hands each interval to the trace sink.
/// Threads: any.
class WaitMeter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitMeter(TraceSink trace) : trace_(std::move(trace)) {}

  void Add(const std::string& op, Clock::time_point begin, Clock::time_point end) {
    const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin);
    nanoseconds_ += static_cast<std::uint64_t>(spent.count());
    if (trace_) trace_(TraceSpan{"stall", op, begin, end});
  }
  double seconds() const { return static_cast<double>(nanoseconds_) / 1e9; }

 private:
  const TraceSink trace_;
  std::atomic<std::uint64_t> nanoseconds_{0};
};

}  // namespace sluice::engine
