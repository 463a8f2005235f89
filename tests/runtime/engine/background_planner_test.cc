#include "runtime/engine/background_planner.h"

#include <gtest/gtest.h>

#include <thread>

namespace sluice::engine {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

PlanBasis Basis() {
  return {.recording = 5,
          .seconds = 2,
          .lead_seconds = 0.1,
          .frames = {10, 20, 30},
          .links = {{.in_s = 1, .out_s = 2}, {.in_s = 3, .out_s = 4}}};
}

TEST(PlanBasisTest, APlanIsKeptWhileLittleChanges) {
  const PlanBasis was = Basis();
  PlanBasis is = was;
  EXPECT_FALSE(HasDrifted(was, is));
  is.seconds *= 1.1;
  is.links[1].in_s *= 0.9;
  is.lead_seconds *= 2;
  EXPECT_FALSE(HasDrifted(was, is));
}

TEST(PlanBasisTest, EachChangeThatMattersIsDrift) {
  const std::vector<void (*)(PlanBasis*)> changes = {
      [](PlanBasis* basis) { basis->recording = 6; },
      [](PlanBasis* basis) { basis->frames[1] = 19; },
      [](PlanBasis* basis) { basis->seconds *= 1.2; },
      [](PlanBasis* basis) { basis->seconds /= 1.2; },
      [](PlanBasis* basis) { basis->lead_seconds *= 4; },
      [](PlanBasis* basis) { basis->links[0].in_s *= 1.4; },
      [](PlanBasis* basis) { basis->links[1].out_s /= 1.4; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    PlanBasis is = Basis();
    changes[i](&is);
    EXPECT_TRUE(HasDrifted(Basis(), is)) << "change " << i;
  }
}

/// Copies of `pages` pages in all that keep the direction busy for at least a millisecond.
void Cross(LinkMeter& meter, std::uint64_t pages) {
  const auto begun = meter.Begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  meter.Succeeded(begun, pages * kPageBytes);
}

double PageSeconds(const LinkMeter& meter, std::uint64_t pages) {
  return meter.Read().busy_seconds / static_cast<double>(pages);
}

TEST(LinkSpeedsTest, WhatIsNotKnownIsTakenFromTheOtherDirection) {
  LinkMeters meters;
  LinkSpeeds speeds(meters, 2, kPageBytes);
  const double free = kPageBytes / LinkSpeeds::kNoHindranceBytesPerSecond;
  speeds.Look();
  for (const core::PlanLink& link : speeds.links()) {
    EXPECT_DOUBLE_EQ(link.in_s, free);
    EXPECT_DOUBLE_EQ(link.out_s, free);
  }
  LinkMeter& out = meters.Of(1, core::Direction::kOut);
  Cross(out, 20);
  speeds.Look();
  EXPECT_DOUBLE_EQ(speeds.links()[0].out_s, free);
  EXPECT_DOUBLE_EQ(speeds.links()[1].out_s, PageSeconds(out, 20));
  EXPECT_DOUBLE_EQ(speeds.links()[1].in_s, PageSeconds(out, 20));
}

TEST(LinkSpeedsTest, AFewPagesTellNothingAndManyMove) {
  LinkMeters meters;
  LinkSpeeds speeds(meters, 1, kPageBytes);
  LinkMeter& in = meters.Of(0, core::Direction::kIn);
  Cross(in, LinkSpeeds::kPagesToTell);
  speeds.Look();
  const double first = speeds.links()[0].in_s;
  const double busy = in.Read().busy_seconds;
  Cross(in, 1);
  speeds.Look();
  EXPECT_DOUBLE_EQ(speeds.links()[0].in_s, first);
  Cross(in, 99);  // with the one that told nothing alone
  speeds.Look();
  const double later = (in.Read().busy_seconds - busy) / 100;
  EXPECT_DOUBLE_EQ(speeds.links()[0].in_s, (first + later) / 2);
}

}  // namespace
}  // namespace sluice::engine
