// Steps and validations that end early: as if they had not been called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "sluice/runtime.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"
#include "tests/workloads/gpt/gpt_fixture.h"
#include "workloads/gpt/memory/paged_memory.h"
#include "workloads/gpt/training/footprint.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::TempDirectory;

constexpr Bytes kStopPage = 4_KiB;
constexpr int kStopMicroBatches = 4;

/// A trainer on a Runtime that pages most of the model.
struct PagedTrainer {
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<PagedMemory> memory;
  std::unique_ptr<Trainer> trainer;
};

std::string ReadSaved(const TempDirectory& directory) {
  std::ifstream in(directory.path() + "/optimizer.sluice", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Parameters: the norm that clips (0: updates begin in the backward), and when updates run.
class TrainerStopTest : public ::testing::TestWithParam<std::tuple<double, UpdateTime>> {
 protected:
  void SetUp() override {
    train_.micro_batches = kStopMicroBatches;
    train_.val_batches = 3;
    train_.clip_norm = std::get<0>(GetParam());
    data_ = std::make_unique<Dataset>(TinyDataset(train_));
  }

  UpdateTime update() const { return std::get<1>(GetParam()); }

  PagedTrainer Make() {
    const absl::StatusOr<Footprint> footprint = MeasureFootprint(TinyModel(), train_, kStopPage);
    EXPECT_THAT(footprint, IsOk());
    RuntimeOptions options{.page_bytes = kStopPage};
    options.hbm_bytes = footprint->op_hbm_max + kStopPage * 12;
    options.dram_bytes = footprint->op_dram_max + kStopPage * 12;
    options.nvme_bytes = footprint->tensors + footprint->padding + kStopPage * 64;
    options.io.directory = spill_.path();
    auto runtime = Runtime::Create(options);
    EXPECT_THAT(runtime, IsOk());
    PagedTrainer made{.runtime = *std::move(runtime)};
    made.memory = std::make_unique<PagedMemory>(*made.runtime);
    auto trainer = Trainer::Create(TinyModel(), train_, *data_, *made.memory);
    EXPECT_THAT(trainer, IsOk());
    made.trainer = *std::move(trainer);
    return made;
  }

  void MakeSteps(Trainer& trainer, int steps) {
    for (int i = 0; i < steps; ++i) ASSERT_THAT(trainer.Step(update()).status(), IsOk());
  }

  /// The save of an unbroken trainer after so many steps.
  std::string SavedUnbroken(int steps) {
    const PagedTrainer unbroken = Make();
    MakeSteps(*unbroken.trainer, steps);
    TempDirectory saved;
    EXPECT_THAT(unbroken.trainer->SaveState(saved.path()), IsOk());
    return ReadSaved(saved);
  }

  TrainConfig train_ = TinyTrain();
  TempDirectory spill_;
  std::unique_ptr<Dataset> data_;
};

TEST_P(TrainerStopTest, AStoppedStepIsAsIfItHadNotBeenCalled) {
  const std::string after_two = SavedUnbroken(2), after_three = SavedUnbroken(3);
  ASSERT_NE(after_two, after_three);
  for (int stop_at = 1; stop_at < kStopMicroBatches; ++stop_at) {
    const PagedTrainer paged = Make();
    MakeSteps(*paged.trainer, 2);
    int asked = 0;
    paged.trainer->SetStop([&] { return ++asked == stop_at; });
    EXPECT_THAT(paged.trainer->Step(update()).status(), IsStatus(absl::StatusCode::kCancelled, ""));
    EXPECT_EQ(asked, stop_at) << "asked once before each micro-batch but the first";
    EXPECT_EQ(paged.trainer->step(), 2);
    TempDirectory saved;
    ASSERT_THAT(paged.trainer->SaveState(saved.path()), IsOk());
    EXPECT_TRUE(ReadSaved(saved) == after_two) << "stopped at " << stop_at;
    MakeSteps(*paged.trainer, 1);
    ASSERT_THAT(paged.trainer->SaveState(saved.path()), IsOk());
    EXPECT_TRUE(ReadSaved(saved) == after_three) << "stopped at " << stop_at;
  }
}

TEST_P(TrainerStopTest, ASaveWithinAStepIsOfTheStepBefore) {
  const std::string after_two = SavedUnbroken(2), after_three = SavedUnbroken(3);
  for (int save_at = 1; save_at < kStopMicroBatches; ++save_at) {
    const PagedTrainer paged = Make();
    MakeSteps(*paged.trainer, 2);
    int asked = 0;
    TempDirectory saved;
    paged.trainer->SetStop([&] {
      if (++asked == save_at) {
        EXPECT_THAT(paged.trainer->SaveState(saved.path()), IsOk());
      }
      return false;
    });
    MakeSteps(*paged.trainer, 1);
    EXPECT_EQ(asked, kStopMicroBatches - 1);
    EXPECT_TRUE(ReadSaved(saved) == after_two) << "saved at " << save_at;
    ASSERT_THAT(paged.trainer->SaveState(saved.path()), IsOk());
    EXPECT_TRUE(ReadSaved(saved) == after_three) << "saved at " << save_at;
  }
}

TEST_P(TrainerStopTest, AValidationStopsAndSavesBetweenBatches) {
  const PagedTrainer paged = Make();
  MakeSteps(*paged.trainer, 2);
  const absl::StatusOr<float> whole = paged.trainer->Validate();
  ASSERT_THAT(whole, IsOk());
  int asked = 0;
  paged.trainer->SetStop([&] { return ++asked == 2; });
  EXPECT_THAT(paged.trainer->Validate().status(), IsStatus(absl::StatusCode::kCancelled, ""));
  EXPECT_EQ(asked, 2);
  TempDirectory saved;
  paged.trainer->SetStop([&] {
    EXPECT_THAT(paged.trainer->SaveState(saved.path()), IsOk());
    return false;
  });
  EXPECT_THAT(paged.trainer->Validate(), IsOk());
  EXPECT_EQ(*paged.trainer->Validate(), *whole) << "the same batches";
  EXPECT_TRUE(ReadSaved(saved) == SavedUnbroken(2));
}

TEST_P(TrainerStopTest, MakingTheModelStopsBetweenParameters) {
  RuntimeOptions options{.page_bytes = kStopPage};
  options.hbm_bytes = options.dram_bytes = options.nvme_bytes = 16_MiB;
  options.io.directory = spill_.path();
  const auto runtime = Runtime::Create(options);
  ASSERT_THAT(runtime, IsOk());
  PagedMemory memory(**runtime);
  int asked = 0;
  const auto stop = [&] { return ++asked == 3; };
  EXPECT_THAT(Trainer::Create(TinyModel(), train_, *data_, memory, stop).status(),
              IsStatus(absl::StatusCode::kCancelled, ""));
  EXPECT_EQ(asked, 3);
}

INSTANTIATE_TEST_SUITE_P(All,
                         TrainerStopTest,
                         ::testing::Combine(::testing::Values(0.0, 1.0),
                                            ::testing::Values(UpdateTime::kNow,
                                                              UpdateTime::kDeferred)));

}  // namespace
}  // namespace sluice::gpt
