#include "tools/train/policy_score.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

std::vector<StepOutcome> Steps(std::vector<double> seconds, float loss = 1) {
  std::vector<StepOutcome> steps;
  for (const double s : seconds) steps.push_back({.loss = loss, .seconds = s});
  return steps;
}

TEST(PolicyScoreTest, TellsHowManyTimesAsLongBlocksTake) {
  PolicyScore score("lru");
  score.AddBlock(Steps({1, 1}), Steps({9, 9}));
  score.ForgetTimes();
  score.AddBlock(Steps({1, 1}), Steps({2, 4}));
  score.AddBlock(Steps({2, 2}), Steps({2, 4}));
  score.AddBlock(Steps({2, 2}), Steps({2, 2}));
  const PolicyReport report = score.Report();
  EXPECT_EQ(report.policy, "lru");
  EXPECT_EQ(report.blocks, 3);
  EXPECT_DOUBLE_EQ(report.times_as_long, 1.5);  // of 3, 1.5 and 1
  EXPECT_DOUBLE_EQ(report.times_spread, 0.5);
  EXPECT_DOUBLE_EQ(report.step_seconds, 2);
  EXPECT_EQ(report.difference, "");
}

TEST(PolicyScoreTest, NamesTheFirstStepThatDiffers) {
  PolicyScore score("min");
  score.AddFirstValidation(2.5F, 2.5F);
  score.AddBlock(Steps({1, 1}), Steps({1, 1}));
  score.ForgetTimes();
  score.AddBlock(Steps({1, 1}), Steps({1, 1}, 2));
  score.AddBlock(Steps({1, 1}), Steps({1, 1}, 3));
  EXPECT_EQ(score.difference(), "the loss of step 3 is 1, under min 2");
  score = PolicyScore("fifo");
  score.AddFirstValidation(2.5F, 2.0F);
  EXPECT_EQ(score.difference(), "the validation before the first step gives 2.5, under fifo 2");
}

}  // namespace
}  // namespace sluice::tools
