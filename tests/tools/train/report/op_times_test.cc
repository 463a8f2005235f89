#include "tools/train/report/op_times.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

using ::testing::ElementsAre;

using NamedTimes = std::vector<std::pair<std::string, double>>;

Schedule Iteration(const NamedTimes& ops, const std::string& key = "train") {
  Schedule schedule{.key = key, .page_bytes = 4096};
  for (const auto& [name, seconds] : ops) {
    schedule.ops.push_back({.name = name, .lane = "a", .seconds = seconds});
  }
  return schedule;
}

std::vector<double> Seconds(const Schedule& schedule) {
  std::vector<double> seconds;
  for (const ScheduleOp& op : schedule.ops) seconds.push_back(op.seconds);
  return seconds;
}

std::vector<double> Least(const OpTimes& times, Schedule schedule) {
  times.SetLeast(&schedule);
  return Seconds(schedule);
}

std::vector<double> Medians(const OpTimes& times, Schedule schedule) {
  times.SetMedian(&schedule);
  return Seconds(schedule);
}

TEST(OpTimesTest, EachOpHasAFigureOfItsOwn) {
  OpTimes times;
  times.Add(Iteration({{"x", 1}, {"y", 9}}));
  times.Add(Iteration({{"x", 5}, {"y", 2}}));
  times.Add(Iteration({{"x", 2}, {"y", 3}}));
  EXPECT_THAT(Least(times, Iteration({{"x", 7}, {"y", 7}})), ElementsAre(1, 2));
  EXPECT_THAT(Medians(times, Iteration({{"x", 7}, {"y", 7}})), ElementsAre(2, 3));
}

TEST(OpTimesTest, OpsOfOneNameAreToldApartAndOthersMayChangePlaces) {
  OpTimes times;
  times.Add(Iteration({{"x", 1}, {"update", 8}, {"x", 3}}));
  times.Add(Iteration({{"update", 6}, {"x", 2}, {"x", 5}}));
  EXPECT_THAT(Least(times, Iteration({{"x", 7}, {"x", 7}, {"update", 7}})), ElementsAre(1, 3, 6));
}

TEST(OpTimesTest, UnknownOpsStayAsTheyAre) {
  OpTimes times;
  EXPECT_THAT(Least(times, Iteration({{"x", 7}})), ElementsAre(7));
  times.Add(Iteration({{"x", 1}}));
  EXPECT_THAT(Least(times, Iteration({{"x", 7}, {"x", 7}, {"y", 6}})), ElementsAre(1, 7, 6));
  EXPECT_THAT(Medians(times, Iteration({{"x", 7}}, "other")), ElementsAre(7));
  EXPECT_EQ(times.iterations("train"), 1u);
  EXPECT_EQ(times.iterations("other"), 0u);
  times.Forget();
  EXPECT_THAT(Least(times, Iteration({{"x", 7}})), ElementsAre(7));
  EXPECT_EQ(times.iterations("train"), 0u);
}

TEST(OpTimesTest, OldTimesAreForgotten) {
  OpTimes times;
  times.Add(Iteration({{"x", 1}}));
  for (std::size_t i = 1; i < OpTimes::kIterationsMax; ++i) times.Add(Iteration({{"x", 3}}));
  EXPECT_THAT(Least(times, Iteration({{"x", 7}})), ElementsAre(1));
  times.Add(Iteration({{"x", 3}}));
  EXPECT_THAT(Least(times, Iteration({{"x", 7}})), ElementsAre(3));
  EXPECT_EQ(times.iterations("train"), OpTimes::kIterationsMax);
}

}  // namespace
}  // namespace sluice::tools
