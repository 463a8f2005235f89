// Writes that the kernel refuses, as on a full disk, while ops update several parts each: a part is
// as before or updated, State tells which, and once there is space the result is that of a run
// without faults.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "tests/runtime/optim/batched_model.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::FileSizeLimit;
using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;

constexpr auto kFull = absl::StatusCode::kResourceExhausted;

/// Begins to move pages, and takes all space away while they are in flight.
void FillTheDiskAmid(BatchedModel& model,
                     std::optional<FileSizeLimit>* limit,
                     const std::function<void()>& begin) {
  model.faults.Hold();
  begin();
  model.faults.WaitForHeld(1);
  limit->emplace(0);
  model.faults.Release();
}

/// Ends the lack of space, and waits until all refused writes have been reported.
void GiveSpaceBack(BatchedModel& model, std::optional<FileSizeLimit>* limit) {
  limit->reset();
  model.faults.WaitForNoneInFlight();
}

/// Repeats the step whose updates were refused space, first without space, then with it.
void RepeatUntilThereIsSpace(BatchedModel& model, std::optional<FileSizeLimit>* limit) {
  const auto before = model->Reference();
  EXPECT_THAT(model.optimizer().Step()->Wait(), IsStatus(kFull, "EFBIG"));
  GiveSpaceBack(model, limit);
  model.ReferenceStep(2);
  const std::uint64_t missing = model.ExpectOldOrNew(before, kFull);
  EXPECT_GT(missing, 0u);
  EXPECT_LT(missing, model->Reference()[0].size() / sizeof(float) * BatchedModel::kParameters);
  EXPECT_EQ(model.optimizer().step(), 1);
  ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
  EXPECT_EQ(model->Paged(), model->Reference());
  model.Train(3);
  EXPECT_EQ(model->Paged(), model->Reference());
}

TEST(OptimizerFullDiskTest, AStepThatTheFullDiskStopsIsCompletedOnceThereIsSpace) {
  for (const double clip : {0.0, 1.0}) {
    SCOPED_TRACE(clip);
    BatchedModel model({.clip_norm = clip});
    ASSERT_THAT(model.runtime->BeginIteration("step"), IsOk());
    model.Train(1);
    ASSERT_THAT(model.runtime->EndIteration(), IsOk());
    const std::size_t parts = BatchedModel::kParameters * BatchedModel::kParts;
    ASSERT_LT(model.runtime->RecordedSchedule("step")->ops.size(), parts) << "several to an op";
    model.SetGradients(2);
    std::optional<FileSizeLimit> limit;
    StepHandle step;
    FillTheDiskAmid(model, &limit, [&] {
      for (std::size_t g = 0; g < 2; ++g) {
        ASSERT_THAT(model.optimizer().GradientReady(model->group(g)), IsOk());
      }
      step = model.optimizer().Step().value();
    });
    EXPECT_THAT(step.Wait(), IsStatus(kFull, "EFBIG"));
    RepeatUntilThereIsSpace(model, &limit);
  }
}

TEST(OptimizerFullDiskTest, AnEarlyUpdateThatTheFullDiskStopsIsCompletedOnceThereIsSpace) {
  for (const bool space_for_the_others : {false, true}) {
    SCOPED_TRACE(space_for_the_others);
    BatchedModel model;
    model.Train(1);
    model.SetGradients(2);
    std::optional<FileSizeLimit> limit;
    FillTheDiskAmid(model, &limit, [&] {
      ASSERT_THAT(model.optimizer().GradientReady(model->group(0)), IsOk());
    });
    EXPECT_THAT(model.optimizer().WaitFor(model->group(0)), IsStatus(kFull, "EFBIG"));
    if (space_for_the_others) GiveSpaceBack(model, &limit);
    ASSERT_THAT(model.optimizer().GradientReady(model->group(1)), IsOk());
    EXPECT_THAT(model.optimizer().Step()->Wait(), IsStatus(kFull, "EFBIG"));
    const TensorId last = model->parameter(BatchedModel::kParameters - 1);
    if (space_for_the_others) {
      EXPECT_EQ(model.optimizer().State(last)->step, 2);
      limit.emplace(0);
    }
    RepeatUntilThereIsSpace(model, &limit);
  }
}

TEST(OptimizerFullDiskTest, ASaveThatTheFullDiskRefusesLeavesTheOneOfBefore) {
  BatchedModel model;
  const testing::TempDirectory directory;
  model.Train(1);
  ASSERT_THAT(model.optimizer().Save(directory.path()), IsOk());
  model.Train(2);
  for (const std::uint64_t bytes : {0u, 1u << 20}) {
    const FileSizeLimit limit(bytes);
    EXPECT_THAT(model.optimizer().Save(directory.path()), IsStatus(kFull, "ulimit -f"));
    EXPECT_EQ(OffloadedOptimizer::ReadSave(directory.path())->step, 1);
    EXPECT_EQ(directory.entries(), 1);
  }
  ASSERT_THAT(model.optimizer().Save(directory.path()), IsOk());
  EXPECT_EQ(OffloadedOptimizer::ReadSave(directory.path())->step, 2);
  EXPECT_EQ(model->Paged(), model->Reference());
}

}  // namespace
}  // namespace sluice::optim
