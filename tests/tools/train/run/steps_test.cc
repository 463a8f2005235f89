#include "tools/train/run/steps.h"

#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

TEST(DescribeDifferenceTest, NamesTheStepAndBothSides) {
  const StepOutcome mine{.loss = 1.5F, .val_loss = 2.5F, .validated = 1};
  EXPECT_EQ(DescribeDifference(3, mine, mine), "");
  StepOutcome other = mine;
  other.loss = 1.25F;
  EXPECT_EQ(DescribeDifference(3, mine, other), "the loss of step 3 is 1.5, in RAM 1.25");
  other = mine;
  other.val_loss = 2.0F;
  EXPECT_EQ(DescribeDifference(3, mine, other), "the validation after step 3 gives 2.5, in RAM 2");
  EXPECT_EQ(DescribeDifference(0, mine, other),
            "the validation before the first step gives 2.5, in RAM 2");
  other = mine;
  other.validated = 0;
  EXPECT_NE(DescribeDifference(3, mine, other), "");
}

}  // namespace
}  // namespace sluice::tools
