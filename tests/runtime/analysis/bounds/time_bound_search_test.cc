#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/analysis/bounds/time_bound.h"
#include "tests/runtime/analysis/bounds/exhaustive_time.h"
#include "tests/support/sanitizers.h"

namespace sluice::analysis {
namespace {

constexpr std::uint64_t kSearchPage = 12;
// A sanitizer sees in a fifth of the seeds what it sees in all.
constexpr std::uint32_t kSearchSeedDivisor = testing::kSlowdown > 1 ? 5 : 1;
constexpr std::size_t kStatesMax = 400'000;
constexpr std::array kTiers = {TierKind::kHbm, TierKind::kDram, TierKind::kNvme};

/// A schedule and a machine small enough to search.
struct Instance {
  Schedule schedule;
  TickMachine machine;
};

struct Shape {
  std::uint32_t pages_max = 5;
  std::uint32_t ops_max = 5;
  int tiers = 2;
  int lanes = 1;
};

class RandomInstances {
 public:
  RandomInstances(std::uint32_t seed, Shape shape) : random_(seed), shape_(shape) {}

  Instance Next() {
    Instance instance;
    Schedule& schedule = instance.schedule;
    schedule = {.key = "random", .page_bytes = kSearchPage};
    const std::uint32_t pages = Draw(3, shape_.pages_max);
    for (std::uint32_t page = 0; page < pages; ++page) {
      schedule.tensors.push_back({.bytes = kSearchPage, .segment = page});
      // Each of two lanes has pages of its own, and both share the others.
      lane_of_page_.push_back(static_cast<int>(Draw(0, shape_.lanes == 1 ? 0 : 2)));
    }
    const std::uint32_t ops = Draw(static_cast<std::uint32_t>(shape_.lanes), shape_.ops_max);
    for (std::uint32_t op = 0; op < ops; ++op) schedule.ops.push_back(DrawOp(op, pages));
    DrawMachine(schedule, &instance.machine);
    return instance;
  }

 private:
  std::uint32_t Draw(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

  ScheduleOp DrawOp(std::uint32_t index, std::uint32_t pages) {
    const int lane = shape_.lanes == 1 ? 0 : static_cast<int>(index < 2 ? index : Draw(0, 1));
    const bool below = Draw(0, 5) == 0;
    const TierKind tier = below ? TierKind::kDram : TierKind::kHbm;
    ScheduleOp op{.lane = std::to_string(lane), .seconds = static_cast<double>(Draw(1, 2))};
    for (std::uint32_t page = 0; page < pages; ++page) {
      const bool shared = lane_of_page_[page] == 2;
      if (!shared && lane_of_page_[page] != lane) continue;
      if (Draw(0, 2) == 0) op.accesses.push_back(DrawAccess(page, tier, shared));
      if (!shared && Draw(0, 7) == 0) op.discards.push_back(DrawAccess(page, tier, shared));
    }
    if (op.accesses.size() > 3) op.accesses.resize(3);
    return op;
  }

  ScheduleAccess DrawAccess(std::uint32_t page, TierKind tier, bool shared) {
    constexpr std::array kModes = {AccessMode::kRead,
                                   AccessMode::kRead,
                                   AccessMode::kReadWrite,
                                   AccessMode::kOverwrite,
                                   AccessMode::kOverwrite};
    return {page, kWholeTensor, kModes[Draw(0, shared ? 2 : 4)], TierId{tier, 0}};
  }

  /// Room for the largest op of each lane at once.
  void DrawMachine(const Schedule& schedule, TickMachine* machine) {
    std::array<std::array<std::uint32_t, 2>, 2> largest{};
    for (const ScheduleOp& op : schedule.ops) {
      for (const ScheduleAccess& access : op.accesses) {
        const bool dram = access.tier.kind == TierKind::kDram;
        std::uint32_t& most = largest[dram ? 1 : 0][op.lane == "0" ? 0 : 1];
        most = std::max(most, static_cast<std::uint32_t>(op.accesses.size()));
      }
    }
    for (int tier = 0; tier + 1 < shape_.tiers; ++tier) {
      const auto& lanes = largest[static_cast<std::size_t>(tier)];
      const std::uint32_t least = std::max(1u, lanes[0] + lanes[1]);
      machine->frames.push_back(static_cast<int>(std::max(least, Draw(1, 3))));
      machine->links.push_back({.in_ticks = static_cast<int>(Draw(1, 3)),
                                .out_ticks = static_cast<int>(Draw(1, 3)),
                                .half = Draw(0, 3) == 0});
      TickMachine::Link& link = machine->links.back();
      if (link.half) link.out_ticks = link.in_ticks;
    }
  }

  std::mt19937 random_;
  const Shape shape_;
  /// 2: shared by the lanes.
  std::vector<int> lane_of_page_;
};

TimeBoundOptions OptionsFor(const TickMachine& machine) {
  TimeBoundOptions options;
  for (std::size_t tier = 0; tier <= machine.links.size(); ++tier) {
    options.tiers.push_back(kTiers[tier]);
    const bool last = tier == machine.links.size();
    options.tier_bytes.push_back(
        last ? 0 : static_cast<std::uint64_t>(machine.frames[tier]) * kSearchPage);
  }
  for (const TickMachine::Link& link : machine.links) {
    options.links.push_back({.in_bytes_per_s = static_cast<double>(kSearchPage) / link.in_ticks,
                             .out_bytes_per_s = static_cast<double>(kSearchPage) / link.out_ticks,
                             .half = link.half});
  }
  return options;
}

/// Tightness of the bound over many instances, by the search.
struct Tightness {
  int searched = 0;
  int above_compute = 0;
  int exact = 0;
  double ratio_sum = 0;

  double mean() const { return ratio_sum / above_compute; }
};

/// Checks one instance. The steady time per iteration is that of the last iterations searched.
void CheckInstance(const Instance& instance, int iterations, Tightness* tightness) {
  const ExhaustiveTime search(instance.schedule, instance.machine);
  const std::vector<int> least = search.LeastTicks(iterations, kStatesMax);
  if (least.empty()) return;
  ++tightness->searched;
  const TimeBound bound = ComputeTimeBound(instance.schedule, OptionsFor(instance.machine));
  for (int n = 1; n <= iterations; ++n) {
    ASSERT_LE(bound.LeastSeconds(n), least[static_cast<std::size_t>(n) - 1] + 1e-9) << n;
  }
  const int half = iterations / 2;
  const auto last = static_cast<std::size_t>(iterations) - 1;
  const double steady =
      static_cast<double>(least[last] - least[last - static_cast<std::size_t>(half)]) / half;
  ASSERT_LE(bound.bound_s, steady + 1e-9);
  if (steady <= bound.compute_s) return;
  ++tightness->above_compute;
  tightness->ratio_sum += bound.bound_s / steady;
  tightness->exact += bound.bound_s > steady - 1e-9 ? 1 : 0;
}

/// Prints a row of docs/results/bounds.jsonl.
Tightness CheckMany(const char* name, std::uint32_t seeds, int iterations, Shape shape) {
  Tightness tightness;
  for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckInstance(RandomInstances(seed, shape).Next(), iterations, &tightness);
    if (::testing::Test::HasFatalFailure()) break;
  }
  std::printf(
      "{\"case\":\"search/%s\",\"schedules\":%d,\"slower_than_compute\":%d,\"exact\":%d,"
      "\"mean_bound_over_optimum\":%.3f}\n",
      name,
      tightness.searched,
      tightness.above_compute,
      tightness.exact,
      tightness.mean());
  return tightness;
}

TEST(TimeBoundSearchTest, NothingIsFasterThanTheBoundOverOneLink) {
  const Tightness tightness =
      CheckMany("one link", 3000 / kSearchSeedDivisor, 12, {.pages_max = 6, .ops_max = 6});
  EXPECT_GT(tightness.mean(), 0.93);
}

TEST(TimeBoundSearchTest, NothingIsFasterThanTheBoundOverTwoLinks) {
  const Tightness tightness = CheckMany(
      "two links", 250 / kSearchSeedDivisor, 6, {.pages_max = 5, .ops_max = 5, .tiers = 3});
  EXPECT_GT(tightness.mean(), 0.9);
}

TEST(TimeBoundSearchTest, NothingIsFasterThanTheBoundOfTwoLanes) {
  const Tightness tightness =
      CheckMany("two lanes", 250, 4, {.pages_max = 5, .ops_max = 5, .lanes = 2});
  EXPECT_GT(tightness.mean(), 0.75);
}

}  // namespace
}  // namespace sluice::analysis
