#pragma once

#include <cstdint>

namespace sluice::bench {

/// Result of one stretch of load.
struct Sample {
  std::uint64_t bytes = 0;
  double seconds = 0;  ///< time to the last completion, so that every byte has its time counted
  double cpu_seconds = 0;

  double GiBPerSecond() const { return Ratio(GiB(), seconds); }
  double CpuSecondsPerGiB() const { return Ratio(cpu_seconds, GiB()); }

 private:
  double GiB() const { return static_cast<double>(bytes) / (1 << 30); }
  static double Ratio(double a, double b) { return b > 0 ? a / b : 0; }
};

/// A measurement that begins at its creation.
class Stretch {
 public:
  Stretch();
  /// Threads: cpu_seconds counts any thread that this process has, or had.
  Sample End(std::uint64_t bytes) const;

 private:
  const double start_seconds_;
  const double start_cpu_seconds_;
};

}  // namespace sluice::bench
