// Simulation of a training run by lab validate.
#include "tools/lab/validate/validate_run.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/project_paths.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;

constexpr std::uint64_t kPage = 4096;
constexpr int kTensors = 8;

/// Half of the ops write a tensor of 8 pages each, half read them back, last first.
Schedule UpAndDown(const std::vector<double>& seconds) {
  Schedule schedule{.key = "train", .page_bytes = kPage};
  const auto access = [](int tensor, AccessMode mode) {
    return ScheduleAccess{static_cast<std::uint32_t>(tensor), {0, 8 * kPage}, mode, kHbm0};
  };
  for (int i = 0; i < kTensors; ++i) {
    schedule.tensors.push_back({.name = "t" + std::to_string(i),
                                .bytes = 8 * kPage,
                                .segment = static_cast<std::uint32_t>(i)});
    schedule.ops.push_back({.name = "write", .accesses = {access(i, AccessMode::kOverwrite)}});
  }
  for (int i = kTensors; i-- > 0;) {
    schedule.ops.push_back({.name = "read",
                            .accesses = {access(i, AccessMode::kRead)},
                            .discards = {access(i, AccessMode::kOverwrite)}});
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) schedule.ops[i].seconds = seconds[i];
  return schedule;
}

/// Times with one long op of many, or with equal ops. The links can hide different parts of them.
std::vector<double> OneLong(std::size_t index) {
  std::vector<double> seconds(2 * kTensors, 0.001);
  seconds[index] = 10;
  return seconds;
}
std::vector<double> AllAlike() { return std::vector<double>(2 * kTensors, 1); }

TrainSettings Settings() {
  TrainSettings settings;
  settings.runtime.page_bytes = Bytes(kPage);
  settings.runtime.hbm_bytes = Bytes(24 * kPage);
  settings.runtime.dram_bytes = Bytes(100 * kPage);
  settings.runtime.nvme_bytes = Bytes(100 * kPage);
  return settings;
}

/// Five steps of 20 s, a fifth of it stalled, over a link of 8 pages a second.
TrainedRun Trained(Schedule schedule) {
  TrainedRun run{.report = {}, .schedule = std::move(schedule), .op_times = {}, .rates = {}};
  for (int step = 1; step <= 5; ++step) {
    run.report.steps.push_back({.step = step, .key = "train", .seconds = 20, .stall_seconds = 4});
  }
  constexpr double kRate = 8 * kPage;
  run.rates = {{kDeviceLink, {kRate, kRate, 2 * kRate}}, {kDiskLink, {kRate, kRate, kRate}}};
  return run;
}

TEST(ValidateRunTest, OpsTakeTheMedianOfTheirTimes) {
  const auto medians = Compare(Trained(UpAndDown(AllAlike())), Settings());
  ASSERT_THAT(medians, IsOk());
  TrainedRun run = Trained(UpAndDown(OneLong(2)));  // the last one
  const auto last = Compare(run, Settings());
  ASSERT_THAT(last, IsOk());
  EXPECT_GT(last->predicted_stall_s, medians->predicted_stall_s + 0.1);
  // Two odd ones of five.
  for (int i = 0; i < 3; ++i) run.op_times.Add(UpAndDown(AllAlike()));
  run.op_times.Add(UpAndDown(OneLong(15)));
  run.op_times.Add(run.schedule);
  const auto compared = Compare(run, Settings());
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(compared->predicted_step_s, medians->predicted_step_s);
  EXPECT_EQ(compared->predicted_stall_s, medians->predicted_stall_s);
}

TEST(ValidateRunTest, TheMedianOfJudgedStepsOfTheMainKeyIsCompared) {
  TrainedRun run = Trained(UpAndDown(AllAlike()));
  run.report.steps[0].judged = false;
  run.report.steps[0].seconds = 1;
  run.report.steps[1].seconds = 40;
  run.report.steps[2].stall_seconds = 5;
  run.report.steps.push_back({.step = 6, .key = "train.last", .seconds = 1});
  const auto compared = Compare(run, Settings());
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(compared->steps, 4);
  EXPECT_EQ(compared->measured_step_s, 20);
  EXPECT_EQ(compared->measured_stall_s, 4);
  EXPECT_NEAR(compared->predicted_step_s - compared->predicted_stall_s, 16, 1e-6)
      << "the median of what a step did not wait: 16, 36, 15, 16";
  for (StepRecord& step : run.report.steps) step.judged = false;
  EXPECT_THAT(Compare(run, Settings()),
              IsStatus(absl::StatusCode::kFailedPrecondition, "train.steps"));
}

TEST(ValidateRunTest, TrainingKeepsTheTimesOfItsOps) {
  const TemporaryDirectory spill;
  const auto flags =
      ReadTrainFlags(std::vector<std::string>{"--config",
                                              testing::ProjectFile("configs/train-gpt-tiny.toml"),
                                              "--set=train.steps=9",
                                              "--set=train.val_every=100",
                                              "--set=tiers.nvme.directory=" + spill.path()});
  ASSERT_THAT(flags, IsOk());
  const auto data =
      gpt::Dataset::FromBytes(std::string(5000, 'x'), flags->settings.train, flags->settings.model);
  ASSERT_THAT(data, IsOk());
  const InterruptWatch watch;
  const auto run = Train(*flags, *data, watch);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->schedule.key, MainKey(run->report));
  const auto& steps = run->report.steps;
  const auto judged = std::count_if(steps.begin(), steps.end(), [&](const StepRecord& step) {
    return step.judged && step.key == run->schedule.key;
  });
  EXPECT_GE(judged, 6);
  EXPECT_EQ(run->op_times.iterations(run->schedule.key), static_cast<std::size_t>(judged));
}

}  // namespace
}  // namespace sluice::tools
