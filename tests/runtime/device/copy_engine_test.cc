#include "runtime/device/copy_engine.h"

#include <chrono>
#include <latch>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::device {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using TimePoint = LinkTimeline::TimePoint;

TimePoint At(int microseconds_since) { return TimePoint(microseconds(microseconds_since)); }

TEST(LinkTimelineTest, WithoutARateCopiesTakeNoTime) {
  LinkTimeline link;
  const auto slot = link.Take(At(100), 1 << 20);
  EXPECT_EQ(slot.start, At(100));
  EXPECT_EQ(slot.complete, At(100));
}

TEST(LinkTimelineTest, CopiesQueueBehindEachOther) {
  LinkTimeline link;
  link.SetRate(1e9, 0);  // 1000 bytes per microsecond
  EXPECT_EQ(link.Take(At(10), 5000).complete, At(15));
  const auto second = link.Take(At(11), 5000);
  EXPECT_EQ(second.start, At(15));
  EXPECT_EQ(second.complete, At(20));
  EXPECT_EQ(link.StartOf(At(12)), At(20));
}

TEST(LinkTimelineTest, AnIdleLinkStartsAtSubmission) {
  LinkTimeline link;
  link.SetRate(1e9, 0);
  link.Take(At(0), 1000);
  EXPECT_EQ(link.Take(At(50), 1000).complete, At(51)) << "idle time is not made up for";
}

TEST(LinkTimelineTest, LatencyDoesNotOccupyTheLink) {
  LinkTimeline link;
  link.SetRate(1e9, 100e-6);
  EXPECT_EQ(link.Take(At(0), 1000).complete, At(101));
  const auto second = link.Take(At(0), 1000);
  EXPECT_EQ(second.start, At(1));
  EXPECT_EQ(second.complete, At(102));
}

TEST(LinkTimelineTest, ANewRateHoldsForLaterCopies) {
  LinkTimeline link;
  link.SetRate(1e9, 0);
  link.Take(At(0), 10'000);
  link.SetRate(2e9, 0);
  EXPECT_EQ(link.Take(At(0), 10'000).complete, At(15));
  link.SetRate(0, 0);
  EXPECT_EQ(link.Take(At(0), 10'000).complete, At(15));
}

TEST(CopyEngineTest, LaterCopiesMoveWhileEarlierOnesWaitForTheirLatency) {
  // The second source is copied long before the first copy completes. A latency that occupied the
  // link would leave it untouched until then.
  CopyEngine engine;
  ASSERT_TRUE(engine.Start({.thread_name = "test-copy", .cpus = {}}).ok());
  engine.SetRate(0, 0.05);
  std::vector<std::byte> source(4096, std::byte{7});
  std::vector<std::byte> first(4096);
  std::vector<std::byte> second(4096);
  bool second_was_there = false;
  std::latch done(2);
  engine.Submit(source, first, [&](const absl::Status&) {
    second_was_there = second.back() == std::byte{7};
    done.count_down();
  });
  engine.Submit(source, second, [&](const absl::Status&) { done.count_down(); });
  done.wait();
  EXPECT_TRUE(second_was_there);
}

TEST(CopyEngineTest, DestructionKeepsThePace) {
  std::vector<std::byte> source(1000, std::byte{1});
  std::vector<std::byte> target(1000);
  int completed = 0;
  const auto start = std::chrono::steady_clock::now();
  {
    CopyEngine engine;
    ASSERT_TRUE(engine.Start({.thread_name = "test-copy", .cpus = {}}).ok());
    engine.SetRate(100e3, 0);  // 10 ms each
    for (int i = 0; i < 3; ++i) {
      engine.Submit(source, target, [&](const absl::Status& status) { completed += status.ok(); });
    }
  }
  EXPECT_EQ(completed, 3);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(30));
}

TEST(CopyEngineDeathTest, SizesAreEqual) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CopyEngine engine;
  ASSERT_TRUE(engine.Start({.thread_name = "test-copy", .cpus = {}}).ok());
  std::vector<std::byte> source(8);
  std::vector<std::byte> target(9);
  EXPECT_DEATH(engine.Submit(source, target, [](const absl::Status&) {}), "fills its target");
}

}  // namespace
}  // namespace sluice::device
