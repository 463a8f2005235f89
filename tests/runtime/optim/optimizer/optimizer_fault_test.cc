// A part whose pages fail stays as it was. The next step updates the missing parts, and the result
// is that of a step without faults.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/optim/batched_model.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;
using sluice::testing::StoreFaults;
using sluice::testing::TempDirectory;

class OptimizerFaultTest : public ::testing::Test {
 protected:
  OptimizerFaultTest() {
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
  }

  StoreFaults faults_;
  RuntimeFixture runtime_;
};

std::uint64_t MissingElements(PagedModel& model) {
  std::uint64_t missing = 0;
  for (std::size_t i = 0; i < model.parameters(); ++i) {
    const ParameterState state = model.optimizer().State(model.parameter(i)).value();
    for (const ParameterState::Missing& part : state.missing) {
      EXPECT_THAT(part.why, HasCode(absl::StatusCode::kUnavailable));
      missing += part.elements.count;
    }
  }
  return missing;
}

TEST_F(OptimizerFaultTest, AStepThatFailsInPartIsCompletedByTheNext) {
  for (const double clip : {0.0, 1.0}) {
    PagedModel model(runtime_,
                     {.spec = {.state = StateType::kBf16},
                      .groups = {{20000}, {9000, 100}},
                      .optimizer = {.clip_norm = clip, .depth = 2}});
    ASSERT_THAT(model.Step(), IsOk());
    const double norm = model.GradientNorm();
    const double scale = clip > 0 && norm > clip ? clip / norm : 1;
    model.ReferenceStep(1, scale);

    faults_.FailReads(absl::UnavailableError("EAGAIN"));
    const auto failed = model.Step();
    EXPECT_THAT(failed, IsStatus(absl::StatusCode::kUnavailable, "step 2: 'p"));
    EXPECT_EQ(model.optimizer().step(), 1);
    faults_.FailReads(absl::OkStatus());

    // Parts in dram have been updated, the others are missing.
    std::uint64_t behind = 0;
    for (std::size_t i = 0; i < model.parameters(); ++i) {
      if (model.optimizer().State(model.parameter(i))->step < 2) ++behind;
    }
    EXPECT_GT(behind, 0u);

    StepHandle again = model.optimizer().Step().value();
    const auto done = again.Wait();
    ASSERT_THAT(done, IsOk());
    EXPECT_EQ(done->step, 2);
    EXPECT_EQ(model.optimizer().step(), 2);
    EXPECT_EQ(MissingElements(model), 0u);
    model.ReferenceStep(2, scale);
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

/// An update beside the backward fails this way, before other groups have gradients.
TEST_F(OptimizerFaultTest, AGroupThatFailsBeforeTheOthersBeginIsCompletedByTheNextStep) {
  PagedModel model(runtime_, {.groups = {{20000}, {9000, 100}}, .optimizer = {.depth = 2}});
  for (std::int64_t step = 1; step <= 4; ++step) {
    const bool fails = step % 2 == 0;
    if (fails) faults_.FailReads(absl::UnavailableError("EAGAIN"));
    ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
    const absl::Status early = model.optimizer().WaitFor(model.group(0));
    faults_.FailReads(absl::OkStatus());
    ASSERT_THAT(model.optimizer().GradientReady(model.group(1)), IsOk());
    const auto done = model.optimizer().Step()->Wait();
    if (fails) {
      EXPECT_THAT(early, IsStatus(absl::StatusCode::kUnavailable, "'p0'"));
      EXPECT_THAT(done, IsStatus(absl::StatusCode::kUnavailable, "'p0'"));
      EXPECT_GT(MissingElements(model), 0u);
      EXPECT_EQ(model.optimizer().State(model.parameter(1))->step, step) << "the others are done";
      ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
    } else {
      EXPECT_THAT(early, IsOk());
      ASSERT_THAT(done, IsOk());
    }
    model.ReferenceStep(step);
    EXPECT_EQ(model.Paged(), model.Reference()) << "step " << step;
  }
}

/// The full tier refuses the writes that would make room. Pages stay where they are, whole.
TEST_F(OptimizerFaultTest, AGroupThatFindsNoRoomIsCompletedByTheNextStep) {
  PagedModel model(runtime_, {.groups = {{20000}, {9000, 100}}, .optimizer = {.depth = 2}});
  ASSERT_THAT(model.Step(), IsOk());
  model.ReferenceStep(1);
  faults_.FailWrites(absl::ResourceExhaustedError("ENOSPC"));
  ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
  const absl::Status early = model.optimizer().WaitFor(model.group(0));
  faults_.FailWrites(absl::OkStatus());
  EXPECT_THAT(early, HasCode(absl::StatusCode::kResourceExhausted));
  ASSERT_THAT(model.optimizer().GradientReady(model.group(1)), IsOk());
  const auto done = model.optimizer().Step()->Wait();
  EXPECT_THAT(done, HasCode(absl::StatusCode::kResourceExhausted));
  ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
  model.ReferenceStep(2);
  EXPECT_EQ(model.Paged(), model.Reference());
}

/// Some parts have the step already. If the step were skipped, it would be theirs and not the
/// others'.
void ExpectNoSkipOfAHalfDoneStep(RuntimeFixture& runtime, StoreFaults& faults, bool given) {
  PagedModel model(
      runtime,
      {.groups = {{20000}, {9000, 100}},
       .optimizer = {.clip_norm = 1, .skip_not_finite = true, .norm_given = given, .depth = 2},
       .gradients = Storage::kTensor});
  const double norm = model.GradientNorm();
  StepOptions right, wrong;
  if (given) {
    right.gradient_norm = norm;
    wrong.gradient_norm = INFINITY;
  }
  ASSERT_THAT(model.Step(right), IsOk());
  model.ReferenceStep(1, 1 / norm);
  faults.FailReadsOf(faults.written().front().segment, absl::UnavailableError("EAGAIN"));
  ASSERT_THAT(model.Step(right), HasCode(absl::StatusCode::kUnavailable));
  faults.FailReads(absl::OkStatus());
  const std::uint64_t missing = MissingElements(model);
  ASSERT_GT(missing, 0u);
  ASSERT_LT(missing, 29100u);

  const float first = model.run(0).gradient(0);
  if (!given) model.run(0).SetGradient(0, INFINITY);
  model.PublishGradients();
  EXPECT_THAT(model.optimizer().Step(wrong)->Wait(),
              IsStatus(absl::StatusCode::kFailedPrecondition, "updated by finite ones"));
  EXPECT_EQ(model.optimizer().step(), 1);
  model.run(0).SetGradient(0, first);
  model.PublishGradients();
  ASSERT_THAT(model.optimizer().Step(right)->Wait(), IsOk());
  EXPECT_EQ(MissingElements(model), 0u);
  model.ReferenceStep(2, 1 / norm);
  EXPECT_EQ(model.Paged(), model.Reference());
}

TEST_F(OptimizerFaultTest, AHalfDoneStepIsNotSkippedForTheNormThatIsFound) {
  ExpectNoSkipOfAHalfDoneStep(runtime_, faults_, false);
}

TEST_F(OptimizerFaultTest, AHalfDoneStepIsNotSkippedForTheNormThatIsGiven) {
  ExpectNoSkipOfAHalfDoneStep(runtime_, faults_, true);
}

TEST_F(OptimizerFaultTest, NothingElseMayHappenBeforeAFailedStepIsRepeated) {
  PagedModel model(runtime_, {.groups = {{30000}}});
  ASSERT_THAT(model.Step(), IsOk());
  faults_.FailReads(absl::UnavailableError("EAGAIN"));
  ASSERT_FALSE(model.Step().ok());
  faults_.FailReads(absl::OkStatus());
  EXPECT_THAT(model.optimizer().Save("/tmp"),
              IsStatus(absl::StatusCode::kFailedPrecondition, "repeats what is missing"));
  EXPECT_THAT(model.optimizer().GradientReady(model.group(0)),
              IsStatus(absl::StatusCode::kFailedPrecondition, "failed in part; Step repeats"));
}

/// Copies beside their parameters are whole pages, too.
TEST_F(OptimizerFaultTest, ALoadReadsNoPageFromNvme) {
  const TempDirectory directory;
  PagedModel model(
      runtime_,
      {.spec = {.copy = CopyType::kBf16}, .groups = {{20000}, {9000}}, .copies = Storage::kTensor});
  ASSERT_THAT(model.Step(), IsOk());
  model.ReferenceStep(1);
  ASSERT_THAT(model.optimizer().Save(directory.path()), IsOk());
  ASSERT_THAT(model.Step(), IsOk());
  faults_.FailReads(absl::UnavailableError("EAGAIN"));
  const absl::Status loaded = model.optimizer().Load(directory.path());
  faults_.FailReads(absl::OkStatus());
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(model.Paged(), model.Reference());
}

TEST_F(OptimizerFaultTest, ALoadThatEndsInTheMiddleMustBeRepeated) {
  constexpr auto kNotNow = absl::StatusCode::kFailedPrecondition;
  const TempDirectory directory;
  for (const bool after_failed_step : {false, true}) {
    PagedModel model(runtime_, {.spec = {.copy = CopyType::kFp16}, .groups = {{20000}, {9000}}});
    OffloadedOptimizer& optimizer = model.optimizer();
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(1);
    ASSERT_THAT(optimizer.Save(directory.path()), IsOk());
    ASSERT_THAT(model.Step(), IsOk());
    faults_.FailWrites(absl::ResourceExhaustedError("ENOSPC"));
    if (after_failed_step) {
      EXPECT_FALSE(model.Step().ok());
    }
    const absl::Status loaded = optimizer.Load(directory.path());
    faults_.FailWrites(absl::OkStatus());
    ASSERT_THAT(loaded, HasCode(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(optimizer.GradientReady(model.group(0)), IsStatus(kNotNow, "Load again"));
    EXPECT_THAT(optimizer.Step(), IsStatus(kNotNow, "Load again"));
    EXPECT_THAT(optimizer.RefreshCopies(model.group(0)), IsStatus(kNotNow, "Load again"));
    EXPECT_THAT(optimizer.Save(directory.path()), IsStatus(kNotNow, "Load again"));
    ASSERT_THAT(optimizer.Load(directory.path()), IsOk());
    EXPECT_EQ(optimizer.step(), 1);
    EXPECT_EQ(model.Paged(), model.Reference());
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(2);
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

TEST(BatchFaultTest, APageThatCannotBeReadHoldsNoOtherPartBack) {
  BatchedModel model;
  model.Train(1);
  ASSERT_FALSE(model.faults.written().empty());
  model.faults.FailReadsOf(model.faults.written().front().segment,
                           absl::UnavailableError("EAGAIN"));
  model.SetGradients(2);
  EXPECT_THAT(model->Step(), IsStatus(absl::StatusCode::kUnavailable, "step 2: 'p"));
  std::size_t behind = 0;
  for (std::size_t i = 0; i < BatchedModel::kParameters; ++i) {
    if (model.optimizer().State(model->parameter(i))->step < 2) ++behind;
  }
  EXPECT_EQ(behind, 1u) << "whose segment it is";

  model.faults.FailReads(absl::OkStatus());
  const auto before = model->Reference();
  model.ReferenceStep(2);
  EXPECT_GT(model.ExpectOldOrNew(before, absl::StatusCode::kUnavailable), 0u);
  ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
  EXPECT_EQ(model->Paged(), model->Reference());
}

}  // namespace
}  // namespace sluice::optim
