// A parameter counts its own steps: in bias correction, random bits, State and saves. The
// optimizer's step, the order of the sweep and repeated steps stay the optimizer's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/runtime/optim/save_file.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::kCaseStride;
using sluice::testing::kSlowdown;
using sluice::testing::RuntimeFixture;
using sluice::testing::StoreFaults;
using sluice::testing::TempDirectory;

class OptimizerLateGroupTest : public ::testing::Test {
 protected:
  OptimizerLateGroupTest() {
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
  }

  void Train(PagedModel& model, int steps) {
    for (int i = 0; i < steps; ++i) {
      const std::int64_t step = model.optimizer().step() + 1;
      model.SetGradients(static_cast<std::uint64_t>(step));
      ASSERT_THAT(model.Step(), IsOk());
      model.ReferenceStep(step);
    }
    EXPECT_EQ(model.Paged(), model.Reference());
  }

  std::string directory() const { return directory_.path(); }

  TempDirectory directory_;
  StoreFaults faults_;
  RuntimeFixture runtime_;
};

/// A parameter of one element, 0 at first, under AdamW and a gradient that stays the same.
class OneElement {
 public:
  OneElement(RuntimeFixture& runtime, OffloadedOptimizer& optimizer, const std::string& name)
      : runtime_(runtime), optimizer_(optimizer) {
    tensor_ = runtime->CreateTensor({.name = name, .shape = {1}}).value();
    const float zero = 0;
    runtime.Write(tensor_, std::as_bytes(std::span(&zero, 1)));
    group_ = optimizer.AddGroup({.name = name, .parameters = {tensor_}}).value();
    const absl::Status bound =
        optimizer.BindGradient(tensor_, {.bytes = std::as_bytes(std::span(&gradient_, 1))});
    EXPECT_THAT(bound, IsOk());
  }

  absl::Status Ready() { return optimizer_.GradientReady(group_); }
  double value() {
    float value = 0;
    std::memcpy(&value, runtime_.Read(tensor_).data(), sizeof(value));
    return double{value};
  }

 private:
  RuntimeFixture& runtime_;
  OffloadedOptimizer& optimizer_;
  const float gradient_ = 0.01f;
  TensorId tensor_;
  GroupId group_;
};

TEST_F(OptimizerLateGroupTest, UnderAConstantGradientEveryUpdateIsTheLearningRate) {
  for (const int steps_before : {0, 1, 10000 / kSlowdown}) {
    const auto optimizer = OffloadedOptimizer::Create(*runtime_, {}).value();
    const std::string suffix = std::to_string(steps_before);
    OneElement first(runtime_, *optimizer, "first" + suffix);
    for (int i = 0; i < steps_before; ++i) {
      ASSERT_THAT(first.Ready(), IsOk());
      ASSERT_THAT(optimizer->Step()->Wait(), IsOk());
    }
    OneElement late(runtime_, *optimizer, "late" + suffix);
    double before = 0;
    for (int step = 1; step <= 100; ++step) {
      ASSERT_THAT(first.Ready(), IsOk());
      ASSERT_THAT(late.Ready(), IsOk());
      ASSERT_THAT(optimizer->Step()->Wait(), IsOk());
      const double after = late.value();
      const double ratio = (before - after) / GroupRates{}.learning_rate;
      EXPECT_NEAR(ratio, 1, 1e-4) << "step " << step << " after " << steps_before;
      before = after;
    }
  }
}

TEST_F(OptimizerLateGroupTest, EveryOptimizerAndTypeGivesTheBitsOfItsOwnSteps) {
  const std::vector<KernelSpec> specs = AllSpecs();
  for (std::size_t i = 0; i < specs.size(); i += kCaseStride) {
    const KernelSpec& spec = specs[i];
    // Types of gradients and copies do not change the counts of steps.
    if (spec.gradient != GradientType::kFp32 || spec.copy != CopyType::kNone) continue;
    SCOPED_TRACE(NameOf(spec));
    PagedModel model(runtime_, {.spec = spec, .groups = {{3000}}, .optimizer = {.seed = 5}});
    Train(model, 3);
    model.AddLateGroup({2000, 300});
    Train(model, 2);
    model.AddLateGroup({100});
    Train(model, 2);
    EXPECT_EQ(model.optimizer().step(), 7);
    const std::int64_t steps[] = {7, 4, 4, 2};
    for (std::size_t i = 0; i < model.parameters(); ++i) {
      EXPECT_EQ(model.optimizer().State(model.parameter(i))->step, steps[i]) << "p" << i;
    }
    if (HasFailure()) return;
  }
}

/// The first group alone determines its bits.
TEST_F(OptimizerLateGroupTest, GroupsThatBeganTogetherKeepTheirBits) {
  PagedModel::Options options{.spec = {.state = StateType::kBf16}, .groups = {{5000}}};
  PagedModel with(runtime_, options), without(runtime_, options);
  for (PagedModel* const model : {&with, &without}) {
    Train(*model, 2);
    if (model == &with) model->AddLateGroup({5000});
    Train(*model, 3);
  }
  const auto expected = without.Paged();
  auto got = with.Paged();
  got.resize(expected.size());
  EXPECT_EQ(got, expected);
}

TEST_F(OptimizerLateGroupTest, AStepThatFailedInPartIsRepeatedWithTheSameSteps) {
  for (const double clip : {0.0, 1.0}) {
    PagedModel model(runtime_,
                     {.spec = {.state = StateType::kBf16},
                      .groups = {{9000}},
                      .optimizer = {.clip_norm = clip, .depth = 2}});
    ASSERT_THAT(model.Step(), IsOk());
    const auto scale = [&] {
      const double norm = model.GradientNorm();
      return clip > 0 && norm > clip ? clip / norm : 1;
    };
    model.ReferenceStep(1, scale());
    model.AddLateGroup({20000});
    for (std::int64_t step = 2; step <= 4; ++step) {
      faults_.FailReads(absl::UnavailableError("EAGAIN"));
      EXPECT_THAT(
          model.Step(),
          IsStatus(absl::StatusCode::kUnavailable, "step " + std::to_string(step) + ": 'p"));
      faults_.FailReads(absl::OkStatus());
      EXPECT_EQ(model.optimizer().step(), step - 1);
      const ParameterState late = model.optimizer().State(model.parameter(1)).value();
      EXPECT_EQ(late.step, step - (late.missing.empty() ? 1 : 2));
      EXPECT_THAT(model.optimizer().AddGroup({.name = "more", .parameters = {TensorId{1}}}),
                  IsStatus(absl::StatusCode::kFailedPrecondition, "failed in part"));
      ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
      model.ReferenceStep(step, scale());
      EXPECT_EQ(model.Paged(), model.Reference()) << "step " << step;
      EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, step - 1);
    }
  }
}

TEST_F(OptimizerLateGroupTest, ASkippedStepCountsForNoParameter) {
  PagedModel model(runtime_, {.groups = {{500}}, .optimizer = {.skip_not_finite = true}});
  Train(model, 2);
  model.AddLateGroup({500});
  model.run(0).SetGradient(7, INFINITY);
  model.PublishGradients();
  EXPECT_TRUE(model.Step()->skipped);
  EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 0);
  model.AddLateGroup({500});
  Train(model, 1);
  for (const std::size_t late : {1u, 2u}) {
    EXPECT_EQ(model.optimizer().State(model.parameter(late))->step, 1);
  }
}

TEST_F(OptimizerLateGroupTest, ASaveKeepsTheStepsOfEachParameter) {
  PagedModel model(runtime_, {.spec = {.state = StateType::kBf16}, .groups = {{3000}}});
  Train(model, 3);
  model.AddLateGroup({2000, 10});
  ASSERT_THAT(model.optimizer().Save(directory()), IsOk());
  model.Recreate();
  ASSERT_THAT(model.optimizer().Load(directory()), IsOk());
  EXPECT_EQ(model.optimizer().State(model.parameter(2))->step, 0);
  Train(model, 2);
  ASSERT_THAT(model.optimizer().Save(directory()), IsOk());
  ASSERT_THAT(model.Step(), IsOk());
  // The save is loaded into the living optimizer, and into a new one, whose groups all begin at
  // once.
  for (const bool anew : {false, true}) {
    if (anew) model.Recreate();
    ASSERT_THAT(model.optimizer().Load(directory()), IsOk());
    EXPECT_EQ(model.optimizer().step(), 5);
    EXPECT_EQ(model.Paged(), model.Reference());
    EXPECT_EQ(model.optimizer().State(model.parameter(0))->step, 5);
    EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 2);
  }
  Train(model, 2);
  model.AddLateGroup({100});
  Train(model, 2);
}

/// Saves without "steps" are from before parameters counted their own.
TEST_F(OptimizerLateGroupTest, TheStepOfAnOldSaveIsEverybodys) {
  PagedModel model(runtime_, {.spec = {.state = StateType::kBf16}, .groups = {{3000}, {100}}});
  Train(model, 3);
  ASSERT_THAT(model.optimizer().Save(directory()), IsOk());
  RewriteSaveText(directory(), [](nlohmann::json& text) { EXPECT_EQ(text.erase("steps"), 1u); });
  ASSERT_THAT(model.Step(), IsOk());
  ASSERT_THAT(model.optimizer().Load(directory()), IsOk());
  EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 3);
  EXPECT_EQ(model.Paged(), model.Reference());
  Train(model, 2);
}

TEST_F(OptimizerLateGroupTest, AnOldSaveTakesTheStepsOfLateGroupsBack) {
  PagedModel model(runtime_, {.groups = {{300}}});
  Train(model, 2);
  model.AddLateGroup({300});
  Train(model, 1);
  ASSERT_THAT(model.optimizer().Save(directory()), IsOk());
  RewriteSaveText(directory(), [](nlohmann::json& text) { EXPECT_EQ(text.erase("steps"), 1u); });
  ASSERT_THAT(model.optimizer().Load(directory()), IsOk());
  EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 3);
}

TEST_F(OptimizerLateGroupTest, DamagedStepsAreNamedAndChangeNothing) {
  PagedModel model(runtime_, {.groups = {{300}}});
  Train(model, 2);
  model.AddLateGroup({300});
  Train(model, 1);
  const auto load_with = [&](const nlohmann::json& steps) {
    EXPECT_THAT(model.optimizer().Save(directory()), IsOk());
    RewriteSaveText(directory(), [&](nlohmann::json& text) { text["steps"] = steps; });
    return model.optimizer().Load(directory());
  };
  constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
  EXPECT_THAT(load_with({3}), IsStatus(kDataLoss, "steps of 1 parameters, of 2"));
  EXPECT_THAT(load_with({3, 1, 1}), IsStatus(kDataLoss, "steps of 3 parameters, of 2"));
  EXPECT_THAT(load_with({3, -4}), IsStatus(kDataLoss, "the steps of parameter 1 are no number"));
  EXPECT_THAT(load_with(nlohmann::json::array()), IsStatus(kDataLoss, "steps of 0 parameters"));
  EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 1);
  Train(model, 1);
  EXPECT_THAT(load_with({4, 0}), IsOk());
  EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, 0);
}

}  // namespace
}  // namespace sluice::optim
