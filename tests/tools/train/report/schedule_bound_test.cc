#include "gtest/gtest.h"
#include "tools/train/report/link_bounds.h"

namespace sluice::tools {
namespace {

constexpr double kMebi = 1 << 20;

/// `count` ops that each write a tensor of a MiB, and as many that read them back, last first.
Schedule UpAndDown(int count) {
  Schedule schedule{.key = "train", .page_bytes = 1 << 16};
  const auto access = [](int tensor, AccessMode mode) {
    return ScheduleAccess{static_cast<std::uint32_t>(tensor), {0, 1 << 20}, mode, kHbm0};
  };
  for (int i = 0; i < count; ++i) {
    schedule.tensors.push_back({.name = "t" + std::to_string(i), .bytes = 1 << 20});
    schedule.ops.push_back({.name = "write", .lane = i % 2 == 0 ? "a" : "b", .seconds = 7});
    schedule.ops.back().accesses.push_back(access(i, AccessMode::kOverwrite));
  }
  for (int i = count; i-- > 0;) {
    schedule.ops.push_back({.name = "read", .lane = "a", .seconds = 7});
    schedule.ops.back().accesses.push_back(access(i, AccessMode::kRead));
    schedule.ops.back().discards.push_back(access(i, AccessMode::kOverwrite));
  }
  return schedule;
}

RuntimeOptions Budgets(std::uint64_t hbm_mib) {
  RuntimeOptions options;
  options.page_bytes = Bytes(1 << 16);
  options.hbm_bytes = Bytes(hbm_mib << 20);
  options.dram_bytes = Bytes(100 << 20);
  options.nvme_bytes = Bytes(100 << 20);
  return options;
}

std::map<std::string, LinkRates> RatesOf(double device) {
  return {{kDeviceLink, {.in = device, .out = device, .both = 2 * device}},
          {kDiskLink, {.in = 1e12, .out = 1e12, .both = 2e12}}};
}

TEST(ScheduleBoundTest, TheBoundWithRoomForAllIsTheTimeOfTheOpsOrTheMostGiven) {
  EXPECT_DOUBLE_EQ(ScheduleBoundSeconds(UpAndDown(10), Budgets(20), RatesOf(kMebi), 3), 3);
  EXPECT_DOUBLE_EQ(ScheduleBoundSeconds(UpAndDown(10), Budgets(20), RatesOf(kMebi), 1000), 140);
}

/// Eight of ten MiB must leave while the writing half runs and come back in the other one: one
/// after the other, though the link could carry both at once.
TEST(ScheduleBoundTest, PagesThatLeaveInOneHalfAndReturnInTheOtherTakeBoth) {
  const Schedule schedule = UpAndDown(10);
  const RuntimeOptions options = Budgets(2);
  const double bound = ScheduleBoundSeconds(schedule, options, RatesOf(kMebi), 0.01);
  const LinkBounds links = ComputeLinkBounds(schedule, options);
  const double volume = BoundSeconds(links.at(kDeviceLink).bytes, RatesOf(kMebi).at(kDeviceLink));
  EXPECT_GE(bound, 1.7 * volume);
  EXPECT_LE(bound, 16.1);
}

}  // namespace
}  // namespace sluice::tools
