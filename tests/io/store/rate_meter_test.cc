#include "io/store/rate_meter.h"

#include <chrono>

#include "gtest/gtest.h"

namespace sluice::io {
namespace {

TEST(RateMeterTest, CountsBusyTimeOnly) {
  RateMeter meter(0);
  RateMeter::Clock::time_point now{};
  for (int i = 0; i < 32; ++i) {
    meter.Begin(now);
    now += std::chrono::milliseconds(1);
    meter.End(1 << 20, now);
    now += std::chrono::seconds(1);  // idle
  }
  EXPECT_NEAR(meter.rate(), 1000.0 * (1 << 20), 1.0);
}

TEST(RateMeterTest, OverlappingOperationsShareTheTime) {
  RateMeter meter(0);
  RateMeter::Clock::time_point now{};
  for (int i = 0; i < 4; ++i) meter.Begin(now);
  for (int i = 0; i < 64; ++i) {
    now += std::chrono::milliseconds(1);
    meter.End(1 << 20, now);
    meter.Begin(now);
  }
  EXPECT_NEAR(meter.rate(), 1000.0 * (1 << 20), 1.0);
}

TEST(RateMeterTest, AnOperationThatTakesLongCountsAtOnce) {
  for (const double rate : {0.0, 2e9}) {
    RateMeter meter(rate);
    const RateMeter::Clock::time_point start{};
    const double idle = meter.RateAt(start, 1 << 20);
    EXPECT_EQ(idle, rate > 0 ? rate : RateMeter::kUnknownRate);
    meter.Begin(start);
    EXPECT_EQ(meter.RateAt(start + std::chrono::microseconds(1), 1 << 20), idle);
    EXPECT_NEAR(meter.RateAt(start + std::chrono::seconds(1), 1 << 20), 1 << 20, 1);
  }
}

}  // namespace
}  // namespace sluice::io
