#pragma once

#include <cstdint>

namespace sluice::bench {

/// What one stretch of load came to.
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

/// Measures a stretch from its creation.
class Stretch {
 public:
  Stretch();
  /// Threads: any that this process has, or had, count for cpu_seconds.
  Sample End(std::uint64_t bytes) const;

 private:
  const double start_seconds_;
  const double start_cpu_seconds_;
};

}  // namespace sluice::bench
