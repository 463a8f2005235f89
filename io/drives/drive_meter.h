#pragma once

#include <chrono>
#include <cstdint>

namespace sluice::io {

/// The rate that a drive shows while it is busy, and its turn among the others.
/// Threads: externally synchronised.
class DriveMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Rate taken for a drive that has not shown its own, in bytes per second.
  static constexpr double kUnknownRate = 1e9;

  /// `rate`: the first one; 0 where it is unknown.
  explicit DriveMeter(double rate) : rate_(rate) {}

  void Begin(Clock::time_point now);
  void End(std::uint64_t bytes, Clock::time_point now);

  /// Bytes per second, smoothed over windows of kWindow operations; 0 while unknown.
  double rate() const { return rate_; }
  /// The same (kUnknownRate while unknown), or less where an operation of `bytes` is taking longer
  /// than that now.
  double RateAt(Clock::time_point now, std::uint64_t bytes) const;

  /// Place of the drive in a fair queue. Each write adds bytes / rate, and the drive with the
  /// lowest place is written next.
  double turn() const { return turn_; }
  /// `first`: where the queue begins, so that a drive that was idle does not catch up.
  void TakeTurn(double first, double cost);

 private:
  static constexpr int kWindow = 16;
  static constexpr double kShareOfNew = 0.3;

  double rate_;
  double turn_ = 0;
  int outstanding_ = 0;
  Clock::time_point busy_since_;
  double busy_seconds_ = 0;
  std::uint64_t bytes_ = 0;
  int operations_ = 0;
};

}  // namespace sluice::io
