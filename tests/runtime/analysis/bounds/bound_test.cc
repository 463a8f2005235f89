#include "runtime/analysis/bounds/bound.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/analysis/bounds/page_walks.h"
#include "tests/runtime/analysis/bounds/exhaustive_paging.h"

namespace sluice::analysis {
namespace {

constexpr std::uint64_t kPage = 4;
constexpr TierId kAbove = kHbm0;
constexpr TierId kBelow = kDram0;

/// One tensor per page, in one segment each.
Schedule PagesSchedule(std::uint32_t pages) {
  Schedule schedule{.key = "test", .page_bytes = kPage};
  for (std::uint32_t page = 0; page < pages; ++page) {
    schedule.tensors.push_back({.name = std::to_string(page), .bytes = kPage, .segment = page});
  }
  return schedule;
}

ScheduleAccess Access(std::uint32_t tensor, AccessMode mode, TierId tier = kAbove) {
  return {.tensor = tensor, .range = kWholeTensor, .mode = mode, .tier = tier};
}

ScheduleOp OpOf(std::vector<ScheduleAccess> accesses) { return {.accesses = std::move(accesses)}; }

BoundOptions Above(std::uint64_t pages, int iterations_max = 8) {
  return {.lowest_above = TierKind::kHbm,
          .bytes_above = pages * kPage,
          .iterations_max = iterations_max};
}

/// Page fetches of MIN over `iterations` iterations from an empty tier.
std::uint64_t FetchesOfMin(const Schedule& schedule, const BoundOptions& options, int iterations) {
  const PageVisits visits = VisitsOf(schedule, options.lowest_above);
  const PageUses uses(visits, options.bytes_above / schedule.page_bytes);
  InWalk walk(uses);
  walk.BeginEmpty(0);
  for (std::uint32_t i = 0; i < uses.op_count() * static_cast<std::uint32_t>(iterations); ++i)
    walk.Step();
  return walk.fetches();
}

TEST(BoundTest, MinMatchesTheTextbookReferenceString) {
  Schedule schedule = PagesSchedule(8);
  for (const std::uint32_t page : {7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1}) {
    schedule.ops.push_back(OpOf({Access(page, AccessMode::kRead)}));
  }
  EXPECT_EQ(FetchesOfMin(schedule, Above(3), 1), 9u);
}

TEST(BoundTest, ACycleOneLargerThanTheTierFetchesWhatDoesNotFit) {
  // 5 pages in turn, 4 frames: MIN keeps 3 of the 4 others over each turn, 2 fetches a turn or
  // less.
  Schedule schedule = PagesSchedule(5);
  for (std::uint32_t page = 0; page < 5; ++page) {
    schedule.ops.push_back(OpOf({Access(page, AccessMode::kRead)}));
  }
  EXPECT_EQ(FetchesOfMin(schedule, Above(4), 1), 5u);
  EXPECT_EQ(FetchesOfMin(schedule, Above(4), 2), 6u);
  EXPECT_EQ(FetchesOfMin(schedule, Above(5), 9), 5u);
}

TEST(BoundTest, ACycleIsFetchedInTheLongRunAsOftenAsMinRepeats) {
  // MIN misses every fourth use, so iterations of five uses repeat after four: 5 fetches in 4.
  Schedule schedule = PagesSchedule(5);
  for (std::uint32_t page = 0; page < 5; ++page) {
    schedule.ops.push_back(OpOf({Access(page, AccessMode::kRead)}));
  }
  EXPECT_DOUBLE_EQ(ComputeLinkBound(schedule, Above(4, 16)).in_bytes, 1.25 * kPage);
  EXPECT_DOUBLE_EQ(ComputeLinkBound(schedule, Above(4, 2)).in_bytes, 1 * kPage)
      << "too few iterations to see it repeat: 6 fetches, of which 4 may be there at first";
}

TEST(BoundTest, StashedActivationsComeBackAndGoOut) {
  // 4 activations are born, then read in reverse; 2 frames, so 2 of them pass the link twice.
  Schedule schedule = PagesSchedule(4);
  for (std::uint32_t page = 0; page < 4; ++page) {
    schedule.ops.push_back(OpOf({Access(page, AccessMode::kOverwrite)}));
  }
  for (std::uint32_t page = 4; page-- > 0;) {
    schedule.ops.push_back(OpOf({Access(page, AccessMode::kRead)}));
    schedule.ops.back().discards.push_back(Access(page, AccessMode::kOverwrite));
  }
  EXPECT_EQ(FetchesOfMin(schedule, Above(2), 3), 6u);
  const BoundBytes bound = ComputeLinkBound(schedule, Above(2));
  EXPECT_DOUBLE_EQ(bound.out_bytes, 2 * kPage);
  EXPECT_DOUBLE_EQ(bound.in_bytes, 2 * kPage) << "each iteration is like the one before";
  ASSERT_EQ(bound.least_in.size(), 8u);
  EXPECT_DOUBLE_EQ(bound.least_in.back(), (16 - 2) * kPage);
  EXPECT_DOUBLE_EQ(bound.LeastIn(1), 0);
  EXPECT_DOUBLE_EQ(bound.LeastIn(7), 12 * kPage);
  EXPECT_DOUBLE_EQ(bound.LeastIn(17), 2 * 14 * kPage);
  EXPECT_DOUBLE_EQ(bound.LeastOut(5), 4 * 2 * kPage);
}

TEST(BoundTest, PagesUpdatedBelowComeUpAndPagesMadeAboveForBelowGoDown) {
  // A parameter is read above and written below, its gradient the other way: with room for both.
  Schedule schedule = PagesSchedule(2);
  schedule.ops = {
      OpOf({Access(0, AccessMode::kRead), Access(1, AccessMode::kOverwrite)}),
      OpOf({Access(0, AccessMode::kReadWrite, kBelow), Access(1, AccessMode::kRead, kBelow)})};
  EXPECT_EQ(FetchesOfMin(schedule, Above(2), 5), 5u);
  EXPECT_DOUBLE_EQ(ComputeLinkBound(schedule, Above(2)).out_bytes, kPage);
  // The link below both tiers moves nothing, as everything fits above it.
  const BoundOptions lower{.lowest_above = TierKind::kDram, .bytes_above = 2 * kPage};
  EXPECT_DOUBLE_EQ(ComputeLinkBound(schedule, lower).in_bytes, 0);
  EXPECT_DOUBLE_EQ(ComputeLinkBound(schedule, lower).out_bytes, 0);
}

TEST(BoundTest, PartialOverwriteNeedsThePageOnlyForWhatElseIsAlive) {
  Schedule schedule{.key = "test", .page_bytes = kPage};
  schedule.tensors = {{.name = "a", .bytes = 2},
                      {.name = "b", .bytes = 2, .segment_offset = 2},
                      {.name = "c", .bytes = kPage, .segment = 1}};
  schedule.ops = {OpOf({Access(0, AccessMode::kOverwrite)}),
                  OpOf({Access(0, AccessMode::kRead)}),
                  OpOf({Access(2, AccessMode::kRead)})};
  EXPECT_EQ(FetchesOfMin(schedule, Above(1), 4), 4u) << "only c is fetched";
  schedule.ops.push_back(OpOf({Access(1, AccessMode::kReadWrite)}));
  EXPECT_EQ(FetchesOfMin(schedule, Above(1), 4), 1u + 4 * 2)
      << "b lives on while a is overwritten, and stays from the last op to the first";
}

TEST(BoundTest, AnOpLargerThanTheTierIsTakenPageByPage) {
  Schedule schedule = PagesSchedule(3);
  schedule.ops = {OpOf(
      {Access(0, AccessMode::kRead), Access(1, AccessMode::kRead), Access(2, AccessMode::kRead)})};
  EXPECT_EQ(FetchesOfMin(schedule, Above(2), 1), 3u);
  EXPECT_EQ(FetchesOfMin(schedule, Above(2), 2), 4u);
}

TEST(BoundTest, PagesThatAreVisitedAlikeAreOneItem) {
  Schedule schedule{.key = "test", .page_bytes = kPage};
  schedule.tensors = {{.name = "a", .bytes = 1000 * kPage + 1},
                      {.name = "b", .bytes = 10 * kPage, .segment = 1},
                      {.name = "c", .bytes = 10 * kPage + 2, .segment = 2}};
  schedule.ops = {OpOf({Access(0, AccessMode::kRead), Access(1, AccessMode::kRead)}),
                  OpOf({Access(2, AccessMode::kRead)})};
  schedule.ops[1].accesses[0].range = {1, 6 * kPage};
  const PageVisits visits = VisitsOf(schedule, TierKind::kHbm);
  EXPECT_EQ(visits.pages, (std::vector<std::uint64_t>{1011, 7}))
      << "c begins and ends within pages";
  // 1018 pages in 1014 frames: 4 pages of either op have no room beside the other.
  EXPECT_EQ(FetchesOfMin(schedule, Above(1014), 3), 1018u + 8 + 8);
  schedule.ops[1].accesses.push_back({2, {6 * kPage, 3}, AccessMode::kOverwrite, kAbove});
  EXPECT_EQ(VisitsOf(schedule, TierKind::kHbm).pages, (std::vector<std::uint64_t>{1011, 6, 1}));
}

TEST(PageVisitsTest, APageOfVeryManyPartsIsLeftOut) {
  Schedule schedule{.key = "test", .page_bytes = 1 << 20};
  schedule.tensors = {{.bytes = 1 << 20}, {.bytes = 4, .segment = 1}};
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    schedule.ops.push_back(OpOf({Access(0, AccessMode::kRead), Access(1, AccessMode::kRead)}));
    schedule.ops.back().accesses[0].range = {i * 100, 50};
  }
  EXPECT_EQ(VisitsOf(schedule, TierKind::kHbm).pages, std::vector<std::uint64_t>{1});
}

/// Random schedules small enough to search.
class RandomSchedules {
 public:
  explicit RandomSchedules(std::uint32_t seed) : random_(seed) {}

  Schedule Next() {
    Schedule schedule{.key = "random", .page_bytes = kPage};
    const std::uint32_t segments = Draw(1, 4);
    for (std::uint32_t segment = 0; segment < segments; ++segment) AddSegment(&schedule, segment);
    const std::uint32_t ops = Draw(1, 5);
    for (std::uint32_t op = 0; op < ops; ++op) schedule.ops.push_back(DrawOp(schedule));
    return schedule;
  }

  std::uint32_t Draw(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

 private:
  /// A page of its own, or two tensors that share one.
  void AddSegment(Schedule* schedule, std::uint32_t segment) {
    const std::uint64_t first = Draw(0, 2) == 0 ? 2 : kPage;
    schedule->tensors.push_back({.bytes = first, .segment = segment});
    if (first == kPage) return;
    schedule->tensors.push_back({.bytes = 2, .segment = segment, .segment_offset = 2});
  }

  ScheduleOp DrawOp(const Schedule& schedule) {
    const TierId tier = Draw(0, 3) == 0 ? kBelow : kAbove;
    ScheduleOp op;
    const std::uint32_t accesses = Draw(1, 3);
    for (std::uint32_t i = 0; i < accesses; ++i) {
      op.accesses.push_back(DrawAccess(schedule, tier));
    }
    if (Draw(0, 2) == 0) op.discards.push_back(DrawAccess(schedule, tier));
    return op;
  }

  ScheduleAccess DrawAccess(const Schedule& schedule, TierId tier) {
    constexpr std::array kModes = {AccessMode::kRead,
                                   AccessMode::kRead,
                                   AccessMode::kReadWrite,
                                   AccessMode::kReadWrite,
                                   AccessMode::kOverwrite};
    const std::uint32_t tensor = Draw(0, static_cast<std::uint32_t>(schedule.tensors.size()) - 1);
    ByteRange range = kWholeTensor;
    if (Draw(0, 3) == 0) range = {1, 1};
    return {tensor, range, kModes[Draw(0, kModes.size() - 1)], tier};
  }

  std::mt19937 random_;
};

/// A capacity of at least 1, with room for all pages of any op.
std::uint64_t DrawCapacity(RandomSchedules& random, const ExhaustivePaging& paging) {
  return random.Draw(std::max(1u, paging.largest_op()), 4);
}

TEST(BoundTest, MinEqualsTheExhaustiveSearch) {
  for (std::uint32_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomSchedules random(seed);
    const Schedule schedule = random.Next();
    const ExhaustivePaging paging(schedule);
    const std::uint64_t capacity = DrawCapacity(random, paging);
    for (int n = 1; n <= 3; ++n) {
      ASSERT_EQ(FetchesOfMin(schedule, Above(capacity), n),
                paging.LeastFetches({.capacity = capacity, .iterations = n, .start_empty = true}));
    }
  }
}

TEST(BoundTest, NoScheduleOfTransfersMovesLessThanTheBound) {
  int with_in = 0, with_out = 0;
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomSchedules random(seed);
    const Schedule schedule = random.Next();
    const ExhaustivePaging paging(schedule);
    const std::uint64_t capacity = DrawCapacity(random, paging);
    const BoundBytes bound = ComputeLinkBound(schedule, Above(capacity, 4));
    with_in += bound.in_bytes > 0;
    with_out += bound.out_bytes > 0;
    for (const int n : {1, 2, 3, 4, 6}) {
      const ExhaustivePaging::Run run{.capacity = capacity, .iterations = n};
      ASSERT_GE(static_cast<double>(paging.LeastFetches(run) * kPage), bound.LeastIn(n)) << n;
      ASSERT_GE(static_cast<double>(paging.LeastWrites(run) * kPage), bound.LeastOut(n)) << n;
    }
  }
  // The search would prove nothing if the bounds were mostly zero.
  EXPECT_GT(with_in, 300);
  EXPECT_GT(with_out, 200);
}

TEST(BoundTest, TheMeanOfManyIterationsIsThatOfMin) {
  int raised = 0;
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomSchedules random(seed);
    const Schedule schedule = random.Next();
    const ExhaustivePaging paging(schedule);
    const std::uint64_t capacity = DrawCapacity(random, paging);
    const BoundBytes bound = ComputeLinkBound(schedule, Above(capacity, 32));
    const std::uint64_t half = FetchesOfMin(schedule, Above(capacity), 120);
    const std::uint64_t whole = FetchesOfMin(schedule, Above(capacity), 240);
    ASSERT_DOUBLE_EQ(bound.in_bytes * 120, static_cast<double>((whole - half) * kPage));
    raised += bound.in_bytes * 32 > bound.least_in.back() ? 1 : 0;
  }
  EXPECT_GT(raised, 300);
}

TEST(BoundTest, NoScheduleOfTransfersCopiesOutLessThanTheWalk) {
  std::uint64_t counted = 0, least = 0;
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomSchedules random(seed);
    const Schedule schedule = random.Next();
    const ExhaustivePaging paging(schedule);
    const std::uint64_t capacity = DrawCapacity(random, paging);
    const PageUses uses(VisitsOf(schedule, TierKind::kHbm), capacity);
    OutWalk walk(uses);
    walk.BeginAfter(0);
    // Steps from the end of the first op to the end of the last, over three iterations.
    for (std::uint32_t step = 1; step < 3 * uses.op_count(); ++step) walk.Step();
    const std::uint64_t writes = paging.LeastWrites({.capacity = capacity, .iterations = 3});
    ASSERT_LE(walk.copies(), writes);
    counted += walk.copies();
    least += writes;
  }
  EXPECT_GT(static_cast<double>(counted), 0.7 * static_cast<double>(least));
}

}  // namespace
}  // namespace sluice::analysis
