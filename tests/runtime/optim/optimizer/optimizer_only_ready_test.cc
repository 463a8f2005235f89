// StepOptions::only_ready: groups that are not ready sit a step out (frozen layers, experts that
// were not chosen), and keep everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;
using sluice::testing::StoreFaults;
using sluice::testing::TempDirectory;

constexpr std::uint64_t kSeed = 20'261'127;

class OptimizerOnlyReadyTest : public ::testing::Test {
 protected:
  OptimizerOnlyReadyTest() {
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
  }

  static std::set<std::size_t> Others(const PagedModel& model,
                                      const std::set<std::size_t>& groups) {
    std::set<std::size_t> others;
    for (std::size_t group = 0; group < model.groups(); ++group) {
      if (!groups.contains(group)) others.insert(group);
    }
    return others;
  }

  /// Makes one step of these groups on both sides.
  void Step(PagedModel& model, const std::set<std::size_t>& groups, double clip_norm = 0) {
    const std::int64_t number = model.optimizer().step() + 1;
    const std::set<std::size_t> others = Others(model, groups);
    model.SetGradients(static_cast<std::uint64_t>(number));
    const auto step = model.StepOf(groups);
    ASSERT_THAT(step, IsOk());
    EXPECT_EQ(step->groups, groups.size());
    double scale = 1;
    if (clip_norm > 0) {
      const double norm = model.GradientNorm(others);
      EXPECT_DOUBLE_EQ(*step->gradient_norm, norm);
      if (norm > clip_norm) scale = clip_norm / norm;
    }
    model.ReferenceStep(number, scale, others);
  }

  StoreFaults faults_;
  RuntimeFixture runtime_;
};

TEST_F(OptimizerOnlyReadyTest, AnySetOfGroupsInAnyStepGivesTheBitsOfTheirOwnSteps) {
  for (const StateType state : {StateType::kFp32, StateType::kBf16, StateType::k8Bit}) {
    for (const double clip : {0.0, 1.0}) {
      std::mt19937_64 random(kSeed);
      PagedModel model(runtime_,
                       {.spec = {.state = state},
                        .groups = {{3000}, {2000, 700}, {5000}},
                        .optimizer = {.clip_norm = clip, .order = SweepOrder::kAlternate}});
      std::vector<std::int64_t> steps(3, 0);
      for (int i = 0; i < 12; ++i) {
        std::set<std::size_t> groups;
        for (std::size_t group = 0; group < 3; ++group) {
          if (random() % 2 == 0) groups.insert(group);
        }
        if (groups.empty()) continue;
        for (const std::size_t group : groups) ++steps[group];
        Step(model, groups, clip);
        ASSERT_EQ(model.Paged(), model.Reference()) << "step " << i << " seed " << kSeed;
      }
      EXPECT_EQ(model.optimizer().State(model.parameter(0))->step, steps[0]);
      EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, steps[1]);
      EXPECT_EQ(model.optimizer().State(model.parameter(3))->step, steps[2]);
    }
  }
}

TEST_F(OptimizerOnlyReadyTest, AMissingGroupIsAnErrorUnlessAskedFor) {
  for (const double clip : {0.0, 1.0}) {
    PagedModel model(runtime_, {.groups = {{300}, {300}}, .optimizer = {.clip_norm = clip}});
    EXPECT_THAT(model.optimizer().Step({.only_ready = true}),
                IsStatus(absl::StatusCode::kFailedPrecondition, "no group is ready"));
    ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
    EXPECT_THAT(model.optimizer().Step(),
                IsStatus(absl::StatusCode::kFailedPrecondition, "group 'g1' are not complete"));
    EXPECT_THAT(model.StepOf({1}), IsOk());  // a step of both groups, as the first is ready, too
    EXPECT_EQ(model.optimizer().State(model.parameter(0))->step, 1);
    EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 1);
  }
}

/// `clip_norm` decides when gradients that were used are discarded; at 1e9 it cuts nothing.
TEST_F(OptimizerOnlyReadyTest, SumsAndGradientsOfTheOthersStay) {
  for (const double clip : {0.0, 1e9}) {
    PagedModel model(runtime_,
                     {.groups = {{600}, {600}},
                      .optimizer = {.accumulate = DType::kF32, .clip_norm = clip},
                      .gradients = Storage::kTensor,
                      .discard = true});
    const auto set_gradients = [&](float value) {
      for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t j = 0; j < 600; ++j) model.run(i).SetGradient(j, value);
      }
    };
    set_gradients(0.25f);
    model.PublishGradients();
    ASSERT_THAT(model.optimizer().AddGradient(model.group(1)), IsOk());
    ASSERT_THAT(model.StepOf({0}), IsOk());
    model.ReferenceStep(1, 1, {1});
    EXPECT_EQ(model.Paged(), model.Reference());
    // The second group's bound gradient is added to its sum from before the step.
    ASSERT_THAT(model.StepOf({1}), IsOk());
    set_gradients(0.5f);
    model.ReferenceStep(2, 1, {0});
    EXPECT_EQ(model.Paged(), model.Reference()) << "clip_norm " << clip;
  }
}

TEST_F(OptimizerOnlyReadyTest, AStepThatFailedIsRepeatedWithTheSameGroups) {
  for (const double clip : {0.0, 1.0}) {
    PagedModel model(runtime_,
                     {.spec = {.state = StateType::kBf16},
                      .groups = {{9000}, {20000}, {5000}},
                      .optimizer = {.clip_norm = clip, .depth = 2}});
    Step(model, {0, 1, 2}, clip);
    model.SetGradients(7);
    faults_.FailReads(absl::UnavailableError("EAGAIN"));
    EXPECT_THAT(model.StepOf({0, 1}), IsStatus(absl::StatusCode::kUnavailable, "step 2: 'p"));
    faults_.FailReads(absl::OkStatus());
    EXPECT_THAT(model.optimizer().GradientReady(model.group(2)),
                IsStatus(absl::StatusCode::kFailedPrecondition, "'g2' has no part in the step"));
    const auto repeated = model.optimizer().Step()->Wait();
    ASSERT_THAT(repeated, IsOk());
    EXPECT_EQ(repeated->groups, 2u);
    const double norm = model.GradientNorm({2});
    model.ReferenceStep(2, clip > 0 && norm > clip ? clip / norm : 1, {2});
    EXPECT_EQ(model.Paged(), model.Reference());
    EXPECT_EQ(model.optimizer().State(model.parameter(2))->step, 1);
    Step(model, {2}, clip);
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

/// Parts asked for ahead hold pages, more of them than dram has.
TEST_F(OptimizerOnlyReadyTest, SumsAreMadeBesideUpdatesThatHaveBegun) {
  PagedModel model(
      runtime_,
      {.groups = {{5000}, {6000}}, .optimizer = {.accumulate = DType::kF32, .depth = 64}});
  for (int step = 1; step <= 3; ++step) {
    model.SetGradients(static_cast<std::uint64_t>(step));
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(step);
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

TEST_F(OptimizerOnlyReadyTest, ASkippedStepCountsForNoGroup) {
  PagedModel model(runtime_, {.groups = {{500}, {500}}, .optimizer = {.skip_not_finite = true}});
  model.run(0).SetGradient(7, INFINITY);
  model.PublishGradients();
  EXPECT_TRUE(model.StepOf({0})->skipped);
  EXPECT_FALSE(model.StepOf({1})->skipped) << "the norm is that of the groups that are ready";
  EXPECT_EQ(model.optimizer().step(), 1);
  EXPECT_EQ(model.optimizer().State(model.parameter(0))->step, 0);
  EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 1);
}

TEST_F(OptimizerOnlyReadyTest, NobodyWaitsForAGroupThatSitsOut) {
  PagedModel model(runtime_, {.groups = {{500}, {500}}});
  ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
  StepHandle step = model.optimizer().Step({.only_ready = true}).value();
  EXPECT_TRUE(step.Ready(model.group(1)));
  EXPECT_THAT(step.WaitFor(model.group(1)), IsOk());
  EXPECT_THAT(model.optimizer().WaitFor(model.group(1)), IsOk());
  EXPECT_THAT(step.Wait(), IsOk());
}

TEST_F(OptimizerOnlyReadyTest, ASaveKeepsTheOwnSteps) {
  const TempDirectory directory;
  PagedModel model(runtime_, {.spec = {.state = StateType::kBf16}, .groups = {{3000}, {2000}}});
  Step(model, {0});
  Step(model, {0, 1});
  Step(model, {0});
  ASSERT_THAT(model.optimizer().Save(directory.path()), IsOk());
  model.Recreate();
  ASSERT_THAT(model.optimizer().Load(directory.path()), IsOk());
  EXPECT_EQ(model.optimizer().State(model.parameter(0))->step, 3);
  EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 1);
  EXPECT_EQ(model.Paged(), model.Reference());
  Step(model, {1});
  EXPECT_EQ(model.Paged(), model.Reference());
}

}  // namespace
}  // namespace sluice::optim
