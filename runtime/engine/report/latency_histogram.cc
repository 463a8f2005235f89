#include "runtime/engine/report/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sluice::engine {

std::size_t LatencyHistogram::BucketOf(std::uint64_t value) {
  constexpr std::uint64_t kSub = std::uint64_t{1} << kSubBits;
  if (value < kSub) return static_cast<std::size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  const std::uint64_t within = (value >> shift) - kSub;
  return static_cast<std::size_t>((static_cast<std::uint64_t>(shift + 1) << kSubBits) + within);
}

double LatencyHistogram::ValueOf(std::size_t bucket) {
  constexpr std::size_t kSub = std::size_t{1} << kSubBits;
  if (bucket < kSub) return static_cast<double>(bucket);
  const int shift = static_cast<int>(bucket >> kSubBits) - 1;
  const double lowest = static_cast<double>(kSub + (bucket & (kSub - 1)));
  return std::ldexp(lowest + 0.5, shift);
}

void LatencyHistogram::Add(std::uint64_t nanoseconds) {
  ++counts_[BucketOf(nanoseconds)];
  ++total_;
  max_ = std::max(max_, nanoseconds);
}

double LatencyHistogram::PercentileUs(double share) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(total_) * share));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts_[bucket];
    if (seen >= wanted && seen > 0) {
      return std::min(ValueOf(bucket), static_cast<double>(max_)) / 1e3;
    }
  }
  return 0;
}

LatencyStats LatencyHistogram::Summary() const {
  LatencyStats stats;
  stats.count = total_;
  stats.p50_us = PercentileUs(0.50);
  stats.p99_us = PercentileUs(0.99);
  stats.max_us = static_cast<double>(max_) / 1e3;
  return stats;
}

}  // namespace sluice::engine
