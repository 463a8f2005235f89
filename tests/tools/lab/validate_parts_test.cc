#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/project_paths.h"
#include "tests/support/status_matchers.h"
#include "tools/lab/validate/validate_flags.h"
#include "tools/lab/validate/validate_report.h"

namespace sluice::tools {
namespace {

using ::sluice::testing::IsOk;
using ::sluice::testing::IsStatus;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kConfig = testing::ProjectFile("configs/train-gpt-tiny.toml");

ValidatedRun Made(double measured_step,
                  double predicted_step,
                  double measured_stall,
                  double stall) {
  return {.percent = 75,
          .policy = "planned",
          .key = "train",
          .steps = 5,
          .measured_step_s = measured_step,
          .measured_stall_s = measured_stall,
          .predicted_step_s = predicted_step,
          .predicted_stall_s = stall};
}

TEST(ValidateReportTest, AStepIsTrueWithinATenth) {
  EXPECT_TRUE(IsWithin(Made(2, 2.19, 0, 0)));
  EXPECT_FALSE(IsWithin(Made(2, 2.21, 0, 0)));
  EXPECT_FALSE(IsWithin(Made(2, 1.79, 0, 0)));
}

TEST(ValidateReportTest, StallsCountAboveATwentiethOfTheStep) {
  EXPECT_FALSE(StallCounts(Made(2, 2, 0.09, 5)));
  EXPECT_TRUE(IsWithin(Made(2, 2, 0.09, 5)));
  EXPECT_TRUE(StallCounts(Made(2, 2, 0.2, 0.2)));
  EXPECT_TRUE(IsWithin(Made(2, 2, 0.2, 0.239)));
  EXPECT_FALSE(IsWithin(Made(2, 2, 0.2, 0.241)));
  EXPECT_FALSE(IsWithin(Made(2, 2, 0.2, 0.159)));
}

TEST(ValidateReportTest, TextAndJsonTellTheSame) {
  const ValidatedRun run = Made(2, 3, 0.5, 1.5);
  EXPECT_THAT(ToText(run), HasSubstr("75 %"));
  EXPECT_THAT(ToText(run), HasSubstr("+50.0 %"));
  EXPECT_THAT(ToText(run), HasSubstr("+200.0 %"));
  EXPECT_THAT(ToText(run), HasSubstr("MISSES"));
  EXPECT_THAT(ToText(Made(2, 2, 0.01, 0)), Not(HasSubstr("MISSES")));
  const auto json = nlohmann::json::parse(ToJsonLine(run));
  EXPECT_EQ(json["percent"], 75);
  EXPECT_DOUBLE_EQ(json["step_error"], 0.5);
  EXPECT_DOUBLE_EQ(json["stall_error"], 2);
  EXPECT_EQ(json["within"], false);
  EXPECT_EQ(json["stall_counts"], true);
}

absl::StatusOr<ValidateFlags> Read(const std::vector<std::string>& words) {
  return ReadValidateFlags(words);
}

TEST(ValidateFlagsTest, HaveThreeBudgetsIfNothingElseIsSaid) {
  const auto flags = Read({"--config", kConfig});
  ASSERT_THAT(flags, IsOk());
  EXPECT_THAT(flags->percents, ElementsAre(50, 75, 100));
  EXPECT_EQ(flags->mode, Console::Mode::kText);
}

TEST(ValidateFlagsTest, FlagsOfTrainingAreTakenOver) {
  const auto flags = Read({"--config",
                           kConfig,
                           "--set",
                           "scheduler.policy=lru",
                           "--set=train.steps=9",
                           "--text",
                           kConfig,
                           "--budgets=100,30",
                           "--json"});
  ASSERT_THAT(flags, IsOk());
  EXPECT_EQ(flags->train.settings.runtime.policy, "lru");
  EXPECT_EQ(flags->train.settings.train.steps, 9);
  EXPECT_THAT(flags->train.settings.texts, ElementsAre(kConfig));
  EXPECT_THAT(flags->percents, ElementsAre(100, 30));
  EXPECT_EQ(flags->mode, Console::Mode::kJson);
}

TEST(ValidateFlagsTest, WrongOnesAreNamed) {
  for (const std::string wrong : {"0", "x", "50,,75", "1001", "-5", "", "50,75,50"}) {
    EXPECT_THAT(Read({"--config", kConfig, "--budgets", wrong}),
                IsStatus(absl::StatusCode::kInvalidArgument, "--budgets"))
        << wrong;
  }
  EXPECT_THAT(Read({"--config", kConfig, "--budgets", "1001"}),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "is not a whole number from 1 to 1000; give percents, as 50,75,100"));
  EXPECT_THAT(Read({}), IsStatus(absl::StatusCode::kInvalidArgument, "--config"));
}

TEST(ValidateFlagsTest, BudgetsAreWholePages) {
  const auto flags = Read({"--config", kConfig});
  ASSERT_THAT(flags, IsOk());
  const RuntimeOptions whole = flags->train.settings.runtime;
  const std::uint64_t page = whole.page_bytes.count();
  const RuntimeOptions part = WithBudgets(flags->train, 33).settings.runtime;
  EXPECT_EQ(part.hbm_bytes.count(), whole.hbm_bytes.count() / page * 33 / 100 * page);
  EXPECT_EQ(part.dram_bytes.count(), whole.dram_bytes.count() / page * 33 / 100 * page);
  EXPECT_EQ(part.nvme_bytes, whole.nvme_bytes);
  EXPECT_EQ(WithBudgets(flags->train, 100).settings.runtime.hbm_bytes, whole.hbm_bytes);
}

}  // namespace
}  // namespace sluice::tools
