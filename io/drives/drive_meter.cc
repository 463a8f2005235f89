#include "io/drives/drive_meter.h"

#include <algorithm>

namespace sluice::io {

void DriveMeter::Begin(Clock::time_point now) {
  if (outstanding_++ == 0) busy_since_ = now;
}

void DriveMeter::End(std::uint64_t bytes, Clock::time_point now) {
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

double DriveMeter::RateAt(Clock::time_point now, std::uint64_t bytes) const {
  const double rate = rate_ > 0 ? rate_ : kUnknownRate;
  if (outstanding_ == 0) return rate;
  const double waited = std::chrono::duration<double>(now - busy_since_).count();
  return std::min(rate, static_cast<double>(bytes) / std::max(waited, 1e-9));
}

void DriveMeter::TakeTurn(double first, double cost) { turn_ = std::max(turn_, first) + cost; }

}  // namespace sluice::io
