// Saves beside steps. The file has the bytes of a blocking save at the same moment, whatever later
// steps do. The steps have the bits of steps without a save.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/optim/batched_model.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/runtime/optim/save_file.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::kCaseStride;
using sluice::testing::Rounds;
using sluice::testing::RuntimeFixture;
using sluice::testing::StoreFaults;
using sluice::testing::TempDirectory;

constexpr std::uint64_t kSaveSeed = 20'261'129;

class SaveBesideStepsTest : public ::testing::Test {
 protected:
  SaveBesideStepsTest() {
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
  }

  const std::string& directory() const { return directory_.path(); }
  /// Content of a save made now.
  std::string BlockingSave(PagedModel& model) {
    EXPECT_THAT(model.optimizer().Save(blocking_.path(), "note"), IsOk());
    return ReadSaveFile(blocking_.path());
  }
  SaveHandle StartSave(PagedModel& model) {
    absl::StatusOr<SaveHandle> save = model.optimizer().StartSave(directory(), "note");
    EXPECT_THAT(save, IsOk());
    return save.value_or(SaveHandle());
  }
  /// One step on both sides.
  void Step(PagedModel& model, double clip_norm = 0) {
    const std::int64_t number = model.optimizer().step() + 1;
    model.SetGradients(static_cast<std::uint64_t>(number));
    ASSERT_THAT(model.Step(), IsOk());
    const double norm = clip_norm > 0 ? model.GradientNorm() : 0;
    model.ReferenceStep(number, norm > clip_norm ? clip_norm / norm : 1);
  }
  void ExpectSaved(SaveHandle& save, const std::string& expected) {
    EXPECT_THAT(save.Wait(), IsOk());
    EXPECT_TRUE(save.Ready());
    EXPECT_EQ(ReadSaveFile(directory()), expected);
    EXPECT_EQ(directory_.entries(), 1);
  }

  TempDirectory directory_;
  TempDirectory blocking_;
  StoreFaults faults_;
  RuntimeFixture runtime_;
};

TEST_F(SaveBesideStepsTest, EveryKindAndTypeHasTheBytesOfABlockingSave) {
  std::size_t cases = 0;
  for (const OptimizerKind kind : {OptimizerKind::kAdam,
                                   OptimizerKind::kAdamW,
                                   OptimizerKind::kSgd,
                                   OptimizerKind::kNesterov,
                                   OptimizerKind::kLion,
                                   OptimizerKind::kAdagrad}) {
    for (const StateType state : {StateType::kFp32, StateType::kBf16, StateType::k8Bit}) {
      for (const ParameterType parameter : {ParameterType::kFp32, ParameterType::kBf16}) {
        if (cases++ % kCaseStride != 0) continue;
        SCOPED_TRACE(std::string(ToString(kind)) + " " + std::string(ToString(state)) + " " +
                     std::string(ToString(parameter)));
        PagedModel model(runtime_,
                         {.spec = {.optimizer = kind, .parameter = parameter, .state = state},
                          .groups = {{20000, 10}, {3000}}});
        Step(model);
        const std::string expected = BlockingSave(model);
        SaveHandle save = StartSave(model);
        EXPECT_FALSE(save.HasEveryPart());
        Step(model);
        EXPECT_TRUE(save.HasEveryPart()) << "the step alone gives every part";
        ExpectSaved(save, expected);
        EXPECT_EQ(model.Paged(), model.Reference());
      }
    }
  }
}

/// Events between StartSave and SaveHandle::Wait.
enum class Event { kStep, kSomeGroups, kSkipped, kFailed, kWait, kSecondSave, kAddGroup, kRates };

class RandomSaveTest
    : public SaveBesideStepsTest,
      public ::testing::WithParamInterface<std::tuple<StateType, double, SweepOrder>> {
 protected:
  void StepOfSome(PagedModel& model, std::mt19937_64& random, double clip_norm) {
    std::set<std::size_t> groups, others;
    for (std::size_t group = 0; group < model.groups(); ++group) {
      (random() % 2 == 0 ? groups : others).insert(group);
    }
    if (groups.empty()) return;
    const std::int64_t number = model.optimizer().step() + 1;
    model.SetGradients(random());
    ASSERT_THAT(model.StepOf(groups), IsOk());
    const double norm = clip_norm > 0 ? model.GradientNorm(others) : 0;
    model.ReferenceStep(number, norm > clip_norm ? clip_norm / norm : 1, others);
  }

  /// A step that fails in part, several times, and is completed.
  void StepThatFails(PagedModel& model, std::mt19937_64& random, double clip_norm) {
    const std::int64_t number = model.optimizer().step() + 1;
    model.SetGradients(random());
    const double norm = clip_norm > 0 ? model.GradientNorm() : 0;
    faults_.FailReads(absl::UnavailableError("EAGAIN"));
    bool done = model.Step().ok();
    for (std::uint64_t tries = random() % 3; tries > 0 && !done; --tries) {
      done = model.optimizer().Step()->Wait().ok();
    }
    faults_.FailReads(absl::OkStatus());
    if (!done) {
      ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
    }
    model.ReferenceStep(number, norm > clip_norm ? clip_norm / norm : 1);
  }

  void StepThatIsSkipped(PagedModel& model) {
    model.SetGradients(1, INFINITY);
    const auto step = model.Step();
    ASSERT_THAT(step, IsOk());
    EXPECT_TRUE(step->skipped);
  }
};

TEST_P(RandomSaveTest, AnySequenceOfStepsLeavesTheBytesOfABlockingSave) {
  const auto [state, clip_norm, order] = GetParam();
  std::mt19937_64 random(kSaveSeed);
  for (int round = 0; round < Rounds(12); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSaveSeed) + " round " + std::to_string(round));
    PagedModel model(runtime_,
                     {.spec = {.state = state},
                      .groups = {{1 + random() % 30000}, {9000, 100, 5}, {1 + random() % 5000}},
                      .optimizer = {.clip_norm = clip_norm,
                                    .skip_not_finite = clip_norm > 0,
                                    .order = order,
                                    .threads = 1 + static_cast<int>(random() % 2),
                                    .depth = static_cast<std::uint32_t>(random() % 4)}});
    for (std::uint64_t steps = random() % 3; steps > 0; --steps) Step(model, clip_norm);
    std::string expected = BlockingSave(model);
    SaveHandle save = StartSave(model);
    for (std::uint64_t events = random() % 5; events > 0; --events) {
      switch (static_cast<Event>(random() % 8)) {
        case Event::kStep:
          Step(model, clip_norm);
          break;
        case Event::kSomeGroups:
          StepOfSome(model, random, clip_norm);
          break;
        case Event::kSkipped:
          if (clip_norm > 0) StepThatIsSkipped(model);
          break;
        case Event::kFailed: {
          // Reads that fail may be the save's own, at the step's end.
          ExpectSaved(save, expected);
          StepThatFails(model, random, clip_norm);
          break;
        }
        case Event::kWait:
          ExpectSaved(save, expected);
          break;
        case Event::kSecondSave: {
          const std::string now = BlockingSave(model);
          EXPECT_TRUE(save.Ready()) << "the first save is completed first";
          ExpectSaved(save, expected);
          expected = now;
          save = StartSave(model);
          break;
        }
        case Event::kAddGroup:
          model.AddLateGroup({300, 7000});
          break;
        case Event::kRates: {
          // The second call sets the rates back to those of both sides.
          ASSERT_THAT(model.optimizer().SetRates(model.group(0), {.learning_rate = 7}), IsOk());
          ASSERT_THAT(model.optimizer().SetRates(model.group(0), model.rates()), IsOk());
          break;
        }
      }
    }
    ExpectSaved(save, expected);
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RandomSaveTest,
    ::testing::Combine(::testing::Values(StateType::kFp32, StateType::kBf16, StateType::k8Bit),
                       ::testing::Values(0.0, 1.0),
                       ::testing::Values(SweepOrder::kAlternate, SweepOrder::kForward)));

/// Failed parts are old and not written. Updated parts are new and written.
TEST_F(SaveBesideStepsTest, AStepThatFailsInPartLeavesTheSaveToTheRepetitionOrToWait) {
  for (const bool waits_first : {false, true}) {
    for (const double clip : {0.0, 1.0}) {
      SCOPED_TRACE(std::to_string(waits_first) + " " + std::to_string(clip));
      PagedModel model(
          runtime_,
          {.groups = {{20000}, {9000, 100}}, .optimizer = {.clip_norm = clip, .depth = 2}});
      Step(model, clip);
      const std::string expected = BlockingSave(model);
      SaveHandle save = StartSave(model);
      model.SetGradients(2);
      const double norm = clip > 0 ? model.GradientNorm() : 0;
      faults_.FailReads(absl::UnavailableError("EAGAIN"));
      EXPECT_THAT(model.Step(), HasCode(absl::StatusCode::kUnavailable));
      EXPECT_THAT(model.optimizer().Step()->Wait(), HasCode(absl::StatusCode::kUnavailable));
      faults_.FailReads(absl::OkStatus());
      EXPECT_FALSE(save.HasEveryPart());
      if (waits_first) ExpectSaved(save, expected);
      ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
      model.ReferenceStep(2, norm > clip ? clip / norm : 1);
      ExpectSaved(save, expected);
      EXPECT_EQ(model.Paged(), model.Reference());
    }
  }
}

/// Early updates, and a Wait before Step.
TEST_F(SaveBesideStepsTest, WaitAmidAStepWritesWhatIsNotUpdatedYet) {
  PagedModel model(runtime_, {.groups = {{20000}, {9000, 100}}});
  Step(model);
  const std::string expected = BlockingSave(model);
  SaveHandle save = StartSave(model);
  model.SetGradients(2);
  ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
  ExpectSaved(save, expected);
  ASSERT_THAT(model.optimizer().GradientReady(model.group(1)), IsOk());
  ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
  model.ReferenceStep(2);
  EXPECT_EQ(model.Paged(), model.Reference());
}

TEST_F(SaveBesideStepsTest, GradientsThatAreAddedUpDoNotDisturbASave) {
  PagedModel model(
      runtime_,
      {.spec = {.gradient = GradientType::kFp32},
       .groups = {{20000}, {9000, 100}},
       .optimizer = {.accumulator_lowest = TierKind::kNvme, .accumulate = DType::kF32}});
  Step(model);
  const std::string expected = BlockingSave(model);
  SaveHandle save = StartSave(model);
  ASSERT_THAT(model.optimizer().AddGradient(model.group(0)), IsOk());
  EXPECT_THAT(model.optimizer().StartSave(directory()).status(),
              IsStatus(absl::StatusCode::kFailedPrecondition, "gradients that are added up"));
  ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
  ASSERT_THAT(model.optimizer().GradientReady(model.group(1)), IsOk());
  ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
  EXPECT_TRUE(save.HasEveryPart());
  ExpectSaved(save, expected);
}

TEST_F(SaveBesideStepsTest, LoadAndSaveCompleteTheOneBefore) {
  PagedModel model(runtime_, {.groups = {{20000}, {3000}}});
  Step(model);
  const std::string expected = BlockingSave(model);
  SaveHandle save = StartSave(model);
  ASSERT_THAT(model.optimizer().Load(blocking_.path()), IsOk());
  EXPECT_TRUE(save.Ready());
  ExpectSaved(save, expected);
  save = StartSave(model);
  const SaveHandle first = save;
  save = StartSave(model);
  EXPECT_TRUE(first.Ready());
  ASSERT_THAT(model.optimizer().Save(blocking_.path(), "note"), IsOk());
  EXPECT_TRUE(save.Ready());
  ExpectSaved(save, expected);
}

TEST_F(SaveBesideStepsTest, WritesOfStatesAndMastersCompleteTheOneBefore) {
  PagedModel model(runtime_,
                   {.spec = {.copy = CopyType::kBf16},
                    .groups = {{20000}, {3000}},
                    .parameters = Storage::kMaster});
  Step(model);
  OffloadedOptimizer& optimizer = model.optimizer();
  const std::vector<float> values(20000, 42);
  const auto expect_saved = [&](auto&& write) {
    const std::string expected = BlockingSave(model);
    SaveHandle save = StartSave(model);
    EXPECT_FALSE(save.HasEveryPart());
    write();
    EXPECT_TRUE(save.HasEveryPart());
    ExpectSaved(save, expected);
    EXPECT_NE(BlockingSave(model), expected);
  };
  expect_saved([&] { ASSERT_THAT(optimizer.WriteState(model.parameter(0), 1, values), IsOk()); });
  expect_saved([&] { ASSERT_THAT(optimizer.WriteMaster(model.parameter(0), values), IsOk()); });
  expect_saved([&] {
    std::ranges::fill(model.memory(0), std::byte{0x40});
    ASSERT_THAT(optimizer.RefreshMaster(model.parameter(0)), IsOk());
  });
}

TEST_F(SaveBesideStepsTest, AnOptimizerThatGoesGivesAnUnfinishedSaveUp) {
  for (const bool steps : {false, true}) {
    PagedModel model(runtime_, {.groups = {{20000}, {3000}}});
    SaveHandle save = StartSave(model);
    if (steps) {
      ASSERT_THAT(model.StepOf({1}), IsOk());
    }
    model.Recreate();
    EXPECT_TRUE(save.Ready());
    if (steps) {
      EXPECT_THAT(save.Wait(), IsOk()) << "the step has completed it";
    } else {
      EXPECT_THAT(save.Wait(), IsStatus(absl::StatusCode::kCancelled, "optimizer was destroyed"));
      EXPECT_EQ(directory_.entries(), 0);
    }
  }
}

TEST_F(SaveBesideStepsTest, NothingIsHeldBackForASaveThatCannotReadAPage) {
  PagedModel model(runtime_, {.groups = {{20000}, {9000, 100}}});
  Step(model);
  SaveHandle save = StartSave(model);
  faults_.FailReads(absl::UnavailableError("EAGAIN"));
  EXPECT_THAT(save.Wait(), HasCode(absl::StatusCode::kUnavailable));
  faults_.FailReads(absl::OkStatus());
  EXPECT_EQ(directory_.entries(), 0);
  Step(model);
  EXPECT_EQ(model.Paged(), model.Reference());
}

TEST_F(SaveBesideStepsTest, AHandleOfNoSaveSaysSo) {
  SaveHandle none;
  EXPECT_TRUE(none.Ready());
  EXPECT_TRUE(none.HasEveryPart());
  EXPECT_THAT(none.Wait(), IsStatus(absl::StatusCode::kFailedPrecondition, "of no save"));
}

/// A step beside a save holds no more pages at once than a step without.
TEST(SaveBesideBatchesTest, ASaveTakesNoMoreOfTheBudgetsAndReadsNoPageTwice) {
  std::uint64_t reads[2];
  for (const bool saves : {false, true}) {
    const TempDirectory directory;
    BatchedModel model;
    model.Train(1);
    SaveHandle save;
    if (saves) save = model.optimizer().StartSave(directory.path()).value();
    const std::uint64_t before = model.runtime->GetStats().links.at("dram-nvme").in.bytes;
    model.Train(2);
    reads[saves ? 1 : 0] = model.runtime->GetStats().links.at("dram-nvme").in.bytes - before;
    EXPECT_TRUE(save.HasEveryPart());
    EXPECT_EQ(model->Paged(), model->Reference());
    if (saves) {
      EXPECT_THAT(save.Wait(), IsOk());
    }
  }
  // The pages that stay in dram from step to step depend on the order of completions.
  EXPECT_LE(reads[1], reads[0] + reads[0] / 4);
}

}  // namespace
}  // namespace sluice::optim
