// The phases of a step: what is refused in each, and what a Load makes of it.
#include "runtime/optim/optimizer/current_step.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;

constexpr auto kNoStepNow = absl::StatusCode::kFailedPrecondition;

/// A step that was released, of one group.
void BeginAndRelease(CurrentStep& step) {
  step.Begin(1);
  ASSERT_THAT(step.Release().status(), IsOk());
}

TEST(CurrentStepTest, AStepCountsOnceItIsOverAndSaysSoOnce) {
  CurrentStep step;
  BeginAndRelease(step);
  EXPECT_FALSE(step.TakeOutcome().over);
  step.OnOver(false, false);
  EXPECT_EQ(step.done(), 1);
  const CurrentStep::Outcome outcome = step.TakeOutcome();
  EXPECT_TRUE(outcome.over);
  EXPECT_FALSE(outcome.skipped);
  EXPECT_EQ(outcome.done, 1);
  EXPECT_EQ(step.state(), nullptr);
  EXPECT_FALSE(step.TakeOutcome().over);
}

TEST(CurrentStepTest, ASkippedStepIsOverAndDoesNotCount) {
  CurrentStep step;
  BeginAndRelease(step);
  step.OnOver(false, true);
  const CurrentStep::Outcome outcome = step.TakeOutcome();
  EXPECT_TRUE(outcome.over);
  EXPECT_TRUE(outcome.skipped);
  EXPECT_EQ(outcome.done, 0);
}

TEST(CurrentStepTest, AFailedStepIsNotOverAndTheNextReleaseRepeatsIt) {
  CurrentStep step;
  BeginAndRelease(step);
  step.OnOver(true, false);
  EXPECT_FALSE(step.TakeOutcome().over);
  EXPECT_EQ(step.done(), 0);
  EXPECT_TRUE(step.failed());
  EXPECT_NE(step.state(), nullptr);
  EXPECT_THAT(step.CheckIdle(), HasCode(kNoStepNow));
  const absl::StatusOr<bool> repeats = step.Release();
  ASSERT_THAT(repeats.status(), IsOk());
  EXPECT_TRUE(*repeats);
  EXPECT_FALSE(step.failed());
}

TEST(CurrentStepTest, AStepIsReleasedAgainOnlyOnceItsOutcomeWasTaken) {
  CurrentStep step;
  BeginAndRelease(step);
  EXPECT_THAT(step.Release().status(), HasCode(kNoStepNow));
  step.OnOver(false, false);
  EXPECT_THAT(step.Release().status(), HasCode(kNoStepNow));
  step.TakeOutcome();
  const absl::StatusOr<bool> repeats = step.Release();
  ASSERT_THAT(repeats.status(), IsOk());
  EXPECT_FALSE(*repeats);
}

TEST(CurrentStepTest, ALoadReplacesAFailedStepAndNoneThatRuns) {
  CurrentStep step;
  BeginAndRelease(step);
  EXPECT_THAT(step.CheckReplaceable(), HasCode(kNoStepNow));
  step.OnOver(true, false);
  EXPECT_THAT(step.CheckReplaceable(), IsOk());
  step.BeginLoad();
  EXPECT_FALSE(step.failed());
  EXPECT_EQ(step.state(), nullptr);
}

TEST(CurrentStepTest, AfterHalfALoadThereIsNothingButAnotherLoad) {
  CurrentStep step;
  step.BeginLoad();
  EXPECT_THAT(step.CheckLoaded(), HasCode(kNoStepNow));
  EXPECT_THAT(step.CheckIdle(), HasCode(kNoStepNow));
  EXPECT_THAT(step.CheckReplaceable(), IsOk());
  step.EndLoad(7);
  EXPECT_THAT(step.CheckIdle(), IsOk());
  EXPECT_EQ(step.done(), 7);
}

TEST(CurrentStepTest, CancelFailsTheStepUnderWayAlone) {
  CurrentStep step;
  step.Cancel();
  step.Begin(1);
  const std::shared_ptr<internal::StepState> under_way = step.state();
  step.Cancel();
  EXPECT_THAT(under_way->Wait(Ticket::Deadline::max()).status(),
              HasCode(absl::StatusCode::kCancelled));
  step.Begin(1);
  const std::shared_ptr<internal::StepState> over = step.state();
  over->Finish({.step = 1});
  step.Cancel();
  EXPECT_THAT(over->Wait(Ticket::Deadline::max()).status(), IsOk());
}

}  // namespace
}  // namespace sluice::optim
