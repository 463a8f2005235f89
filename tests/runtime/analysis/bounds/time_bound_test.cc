#include "runtime/analysis/bounds/time_bound.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/analysis/bounds/lanes.h"

namespace sluice::analysis {
namespace {

constexpr std::uint64_t kTimedPage = 8;

/// One tensor per page, in one segment each.
Schedule TimedSchedule(std::uint32_t pages) {
  Schedule schedule{.key = "test", .page_bytes = kTimedPage};
  for (std::uint32_t page = 0; page < pages; ++page) {
    schedule.tensors.push_back({.bytes = kTimedPage, .segment = page});
  }
  return schedule;
}

ScheduleAccess TimedAccess(std::uint32_t tensor, AccessMode mode, TierId tier = kHbm0) {
  return {.tensor = tensor, .range = kWholeTensor, .mode = mode, .tier = tier};
}
ScheduleAccess Read(std::uint32_t tensor) { return TimedAccess(tensor, AccessMode::kRead); }
ScheduleAccess Overwrite(std::uint32_t tensor) {
  return TimedAccess(tensor, AccessMode::kOverwrite);
}

ScheduleOp OpOf(double seconds, std::vector<ScheduleAccess> accesses, std::string lane = "gpu") {
  return {.lane = std::move(lane), .seconds = seconds, .accesses = std::move(accesses)};
}

/// Options with hbm of `pages` pages over dram, and the seconds of one page in each direction.
TimeBoundOptions OneLink(std::uint64_t pages, double in_s, double out_s) {
  return {.tiers = {TierKind::kHbm, TierKind::kDram},
          .tier_bytes = {pages * kTimedPage, 0},
          .links = {{.in_bytes_per_s = static_cast<double>(kTimedPage) / in_s,
                     .out_bytes_per_s = static_cast<double>(kTimedPage) / out_s}}};
}

/// Four activations are written, then read in reverse and dropped; every op takes a second.
Schedule ForwardAndBackward() {
  Schedule schedule = TimedSchedule(4);
  for (std::uint32_t page = 0; page < 4; ++page) {
    schedule.ops.push_back(OpOf(1, {Overwrite(page)}));
  }
  for (std::uint32_t page = 4; page-- > 0;) {
    schedule.ops.push_back(OpOf(1, {Read(page)}));
    schedule.ops.back().discards.push_back(Overwrite(page));
  }
  return schedule;
}

TEST(TimeBoundTest, ComputeIsThatOfTheLaneThatTakesLongest) {
  Schedule schedule = TimedSchedule(1);
  schedule.ops = {OpOf(2, {Read(0)}), OpOf(4, {}, "cpu"), OpOf(1, {}), OpOf(3, {}, "cpu")};
  const TimeBound bound = ComputeTimeBound(schedule, OneLink(1, 1, 1));
  EXPECT_DOUBLE_EQ(bound.compute_s, 7);
  EXPECT_DOUBLE_EQ(bound.bound_s, 7);
  EXPECT_EQ(bound.binds, BoundKind::kCompute);
  EXPECT_DOUBLE_EQ(bound.LeastSeconds(3), 21);
  EXPECT_DOUBLE_EQ(bound.LeastSeconds(0), 0);
}

TEST(TimeBoundTest, AnEmptyScheduleTakesNoTime) {
  EXPECT_DOUBLE_EQ(ComputeTimeBound(TimedSchedule(1), OneLink(1, 1, 1)).bound_s, 0);
}

TEST(TimeBoundTest, VolumeIsWhatMinFetchesOverTheRate) {
  // Each of 5 pages is used in turn, in 1 frame. Each is fetched in every iteration, but for the
  // page that is there at first.
  Schedule schedule = TimedSchedule(5);
  for (std::uint32_t page = 0; page < 5; ++page) schedule.ops.push_back(OpOf(1, {Read(page)}));
  TimeBoundOptions options = OneLink(1, 3, 1);
  options.iterations_max = 10;
  const TimeBound bound = ComputeTimeBound(schedule, options);
  EXPECT_DOUBLE_EQ(bound.links[0].bytes.in_bytes, 5 * kTimedPage);
  EXPECT_DOUBLE_EQ(bound.links[0].volume_s, 5 * 3);
  // No window can hide a fetch: the frame is free only between the ops.
  EXPECT_DOUBLE_EQ(bound.links[0].window_s, 5 * (1 + 3));
  EXPECT_EQ(bound.binds, BoundKind::kWindow);
  EXPECT_DOUBLE_EQ(bound.LeastSeconds(2), (10 - 1) * 3) << "one page may be there at first";
}

TEST(TimeBoundTest, DirectionsOfALinkAreApartTogetherOrShareOneRate) {
  BoundLink link{.in_bytes_per_s = 10, .out_bytes_per_s = 5};
  EXPECT_DOUBLE_EQ(LinkSeconds(link, 100, 10), 10);
  EXPECT_DOUBLE_EQ(LinkSeconds(link, 100, 60), 12);
  link.both_bytes_per_s = 12.5;
  EXPECT_DOUBLE_EQ(LinkSeconds(link, 100, 50), 12);
  EXPECT_DOUBLE_EQ(LinkSeconds(link, 100, 0), 10);
  link = {.in_bytes_per_s = 10, .out_bytes_per_s = 1000, .half = true};
  EXPECT_DOUBLE_EQ(LinkSeconds(link, 100, 50), 15);
  EXPECT_DOUBLE_EQ(LinkSeconds({}, 100, 50), 0) << "nothing is known of the link";
}

TEST(TimeBoundTest, AWindowHidesOnlyWhatFitsBesideItsFirstOp) {
  // 2 frames, 2 s per page. When the long op ends, one other page is there; of the next three pages
  // two are fetched before the last of them is used.
  Schedule schedule = TimedSchedule(4);
  schedule.ops = {OpOf(10, {Read(0)}), OpOf(1, {Read(1)}), OpOf(1, {Read(2)}), OpOf(1, {Read(3)})};
  const TimeBound bound = ComputeTimeBound(schedule, OneLink(2, 2, 2));
  EXPECT_DOUBLE_EQ(bound.compute_s, 13);
  EXPECT_DOUBLE_EQ(bound.links[0].window_s, 10 + 2 * 2 + 1);
  EXPECT_LT(bound.links[0].volume_s, 6);
  EXPECT_EQ(bound.binds, BoundKind::kWindow);
  EXPECT_EQ(bound.link, 0u);
  EXPECT_DOUBLE_EQ(bound.LeastSeconds(1), 13) << "the pages may be there at first";
  EXPECT_DOUBLE_EQ(bound.LeastSeconds(4), 3 * 15 + 13);
}

TEST(TimeBoundTest, AWrittenPageMustLeaveBeforeItsFrameIsNeeded) {
  // The machine has 2 frames, and takes 2 s per page out, almost none in. Two of four activations
  // leave: the first once it is written, both before the fourth op begins. These take 1 + 4 s; the
  // other ops follow.
  const TimeBound bound = ComputeTimeBound(ForwardAndBackward(), OneLink(2, 0.001, 2));
  EXPECT_DOUBLE_EQ(bound.links[0].bytes.out_bytes, 2 * kTimedPage);
  EXPECT_DOUBLE_EQ(bound.links[0].window_s, 1 + 2 * 2 + 5);
  // Three activations leave if there is one frame, each between its op and the next.
  const TimeBound tight = ComputeTimeBound(ForwardAndBackward(), OneLink(1, 0.001, 2));
  EXPECT_NEAR(tight.links[0].window_s, 8 + 3 * 2 + 3 * 0.001, 1e-12);
}

TEST(TimeBoundTest, BothDirectionsShareAHalfDuplexLink) {
  TimeBoundOptions options = OneLink(2, 2, 2);
  const double apart = ComputeTimeBound(ForwardAndBackward(), options).links[0].volume_s;
  options.links[0].half = true;
  const TimeBound bound = ComputeTimeBound(ForwardAndBackward(), options);
  EXPECT_DOUBLE_EQ(bound.links[0].volume_s, apart + 2 * 2);
}

TEST(TimeBoundTest, FasterTiersAreAboveALowerLinkTogether) {
  TimeBoundOptions options{
      .tiers = {TierKind::kHbm, TierKind::kDram, TierKind::kNvme},
      // One frame: half a frame is none.
      .tier_bytes = {kTimedPage, kTimedPage * 3 / 2, 0},
      .links = {{.in_bytes_per_s = kTimedPage, .out_bytes_per_s = kTimedPage},
                {.in_bytes_per_s = kTimedPage / 4.0, .out_bytes_per_s = kTimedPage}}};
  const TimeBound bound = ComputeTimeBound(ForwardAndBackward(), options);
  EXPECT_DOUBLE_EQ(bound.links[1].bytes.out_bytes, 2 * kTimedPage);
  EXPECT_DOUBLE_EQ(bound.links[0].bytes.out_bytes, 3 * kTimedPage);
  // Three copies out between the first ops, three fetches between the last.
  EXPECT_DOUBLE_EQ(bound.links[0].window_s, 8 + 3 + 3);
  // Two fetches between the fifth op, which still holds the page that it discards, and the last.
  EXPECT_DOUBLE_EQ(bound.links[1].window_s, 6 + 2 * 4);
  // First the one, then the other.
  EXPECT_DOUBLE_EQ(bound.window_s, 6 + 3 + 2 * 4);
  EXPECT_DOUBLE_EQ(bound.bound_s, bound.window_s);
  EXPECT_EQ(bound.binds, BoundKind::kWindow);
  EXPECT_EQ(bound.link, 0u) << "link 0 reaches more alone";
}

TEST(TimeBoundTest, FewerEndsOfWindowsBoundLess) {
  TimeBoundOptions options = OneLink(2, 2, 2);
  const TimeBound all = ComputeTimeBound(ForwardAndBackward(), options);
  for (const std::uint32_t ends : {1u, 2u, 3u, 5u}) {
    options.window_ends_max = ends;
    const TimeBound some = ComputeTimeBound(ForwardAndBackward(), options);
    EXPECT_LE(some.window_s, all.window_s);
    EXPECT_GE(some.window_s, some.compute_s);
  }
  options.window_ends_max = 8;
  options.window_accesses_max = 1;
  EXPECT_DOUBLE_EQ(ComputeTimeBound(ForwardAndBackward(), options).window_s, all.compute_s)
      << "one window, of a whole iteration";
}

TEST(TimeBoundTest, TheNamesOfWhatBinds) {
  EXPECT_EQ(ToString(BoundKind::kCompute), "compute");
  EXPECT_EQ(ToString(BoundKind::kVolume), "volume");
  EXPECT_EQ(ToString(BoundKind::kWindow), "window");
}

/// Mode of the first access of op `op`, as lane `lane` sees it.
AccessMode SeenMode(const Schedule& schedule, std::size_t lane, std::size_t op) {
  return SplitLanes(schedule, TierKind::kHbm)[lane].ops[op].accesses[0].mode;
}

TEST(SplitLanesTest, OneLaneStaysAsItIs) {
  const std::vector<Schedule> lanes = SplitLanes(ForwardAndBackward(), TierKind::kHbm);
  ASSERT_EQ(lanes.size(), 1u);
  ASSERT_EQ(lanes[0].ops.size(), 8u);
  EXPECT_EQ(lanes[0].ops[7].accesses[0].mode, AccessMode::kRead);
  EXPECT_EQ(lanes[0].ops[7].discards.size(), 1u);
}

TEST(SplitLanesTest, APageCountsInTheLaneThatWritesItAbove) {
  Schedule schedule = TimedSchedule(1);
  schedule.ops = {OpOf(1, {Read(0)}),
                  OpOf(1, {TimedAccess(0, AccessMode::kReadWrite)}, "side"),
                  OpOf(1, {Read(0)}, "side")};
  EXPECT_EQ(SeenMode(schedule, 0, 0), AccessMode::kOverwrite) << "another lane's page";
  EXPECT_EQ(SeenMode(schedule, 1, 0), AccessMode::kReadWrite);
  EXPECT_EQ(SeenMode(schedule, 1, 1), AccessMode::kRead);
}

TEST(SplitLanesTest, APageWrittenBelowOnlyCountsInTheFirstLaneThatReadsItAbove) {
  Schedule schedule = TimedSchedule(1);
  schedule.ops = {OpOf(1, {TimedAccess(0, AccessMode::kReadWrite, kDram0)}, "cpu"),
                  OpOf(1, {Read(0)})};
  EXPECT_EQ(SeenMode(schedule, 0, 0), AccessMode::kOverwrite);
  EXPECT_EQ(SeenMode(schedule, 1, 0), AccessMode::kRead);
  schedule.ops[1].discards = {Read(0)};
  EXPECT_EQ(SeenMode(schedule, 1, 0), AccessMode::kOverwrite) << "who knows what comes first";
}

TEST(SplitLanesTest, APageOfSeveralWritersOrOfAnotherDiscarderCountsNowhere) {
  Schedule schedule = TimedSchedule(1);
  schedule.ops = {OpOf(1, {TimedAccess(0, AccessMode::kReadWrite)}),
                  OpOf(1, {TimedAccess(0, AccessMode::kReadWrite, kDram0)}, "cpu")};
  EXPECT_EQ(SeenMode(schedule, 0, 0), AccessMode::kOverwrite);
  schedule.ops[1] = OpOf(1, {Read(0)}, "cpu");
  EXPECT_EQ(SeenMode(schedule, 0, 0), AccessMode::kReadWrite);
  schedule.ops[1].discards = {Read(0)};
  EXPECT_EQ(SeenMode(schedule, 0, 0), AccessMode::kOverwrite);
}

}  // namespace
}  // namespace sluice::analysis
