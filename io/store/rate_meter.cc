#include "io/store/rate_meter.h"

#include <algorithm>

namespace sluice::io {

void RateMeter::Begin(Clock::time_point now) {
  if (outstanding_++ == 0) busy_since_ = now;
}

void RateMeter::End(std::uint64_t bytes, Clock::time_point now) {
  busy_seconds_ += std::chrono::duration<double>(now - busy_since_).count();
  busy_since_ = now;
  bytes_ += bytes;
  --outstanding_;
  if (++operations_ < kWindow) return;
  if (bytes_ > 0 && busy_seconds_ > 0) {
    const double seen = static_cast<double>(bytes_) / busy_seconds_;
    rate_ = rate_ == 0 ? seen : rate_ + kShareOfNew * (seen - rate_);
  }
  operations_ = 0;
  bytes_ = 0;
  busy_seconds_ = 0;
}

double RateMeter::RateAt(Clock::time_point now, std::uint64_t bytes) const {
  const double rate = rate_ > 0 ? rate_ : kUnknownRate;
  if (outstanding_ == 0) return rate;
  const double waited = std::chrono::duration<double>(now - busy_since_).count();
  return std::min(rate, static_cast<double>(bytes) / std::max(waited, 1e-9));
}

}  // namespace sluice::io
