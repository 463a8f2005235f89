#pragma once

#include <array>
#include <cstdint>

#include "sluice/stats.h"

namespace sluice::engine {

/// Counts durations in log-linear buckets: 16 per power of two, so that a value read back is off by
/// at most 1/32 of itself. Threads: externally synchronised.
class LatencyHistogram {
 public:
  void Add(std::uint64_t nanoseconds);
  LatencyStats Summary() const;

 private:
  static constexpr int kSubBits = 4;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) << kSubBits;

  static std::size_t BucketOf(std::uint64_t value);
  /// The middle of a bucket.
  static double ValueOf(std::size_t bucket);
  double PercentileUs(double share) const;

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace sluice::engine
