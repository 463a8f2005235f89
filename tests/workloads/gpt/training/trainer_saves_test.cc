// Saves of a trainer beside its steps: each has the bytes of a blocking save after the same step,
// and no loss and no parameter changes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/optimizer.h"
#include "sluice/runtime.h"
#include "tests/support/temp_directory.h"
#include "tests/workloads/gpt/gpt_fixture.h"
#include "workloads/gpt/memory/paged_memory.h"
#include "workloads/gpt/training/footprint.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {
namespace {

using sluice::testing::TempDirectory;

constexpr Bytes kSavingPage = 4_KiB;
constexpr int kSavedSteps = 6;
constexpr UpdateTime kLater = UpdateTime::kDeferred;

struct SavingCase {
  double clip_norm = 1;
  int micro_batches = 1;
  StateType states = StateType::kFp32;
};

TrainConfig ConfigOf(const SavingCase& of) {
  TrainConfig train = TinyTrain();
  train.clip_norm = of.clip_norm;
  train.micro_batches = of.micro_batches;
  train.states = of.states;
  return train;
}

std::string FileIn(const std::string& directory) {
  std::ifstream stream(directory + "/optimizer.sluice", std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A trainer on a runtime of its own, most of whose tensors are paged.
struct SavingTrainer {
  explicit SavingTrainer(const TrainConfig& train) : data(TinyDataset(train)) {
    ModelConfig model = TinyModel();
    model.layers = 4;
    const Footprint footprint = MeasureFootprint(model, train, kSavingPage).value();
    RuntimeOptions options{.page_bytes = kSavingPage};
    options.hbm_bytes = footprint.op_hbm_max + kSavingPage * 12;
    options.dram_bytes = footprint.op_dram_max + kSavingPage * 12;
    options.nvme_bytes = footprint.tensors + footprint.padding + kSavingPage * 256;
    options.io.directory = store.path();
    runtime = Runtime::Create(options).value();
    memory = std::make_unique<PagedMemory>(*runtime);
    trainer = Trainer::Create(model, train, data, *memory).value();
  }
  Trainer* operator->() { return trainer.get(); }

  TempDirectory store;
  Dataset data;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<PagedMemory> memory;
  std::unique_ptr<Trainer> trainer;
};

/// Losses of steps, and the bytes of a save after each.
struct Reference {
  std::vector<float> losses;
  std::vector<std::string> saves;  ///< files of saves by step, from 0
  StateBytes state;
};

Reference ReferenceOf(const TrainConfig& train) {
  SavingTrainer run(train);
  const TempDirectory directory;
  Reference reference;
  for (int step = 0; step <= kSavedSteps; ++step) {
    if (step > 0) reference.losses.push_back(run->Step(UpdateTime::kNow).value().loss);
    EXPECT_TRUE(run->SaveState(directory.path(), "note").ok());
    reference.saves.push_back(FileIn(directory.path()));
  }
  reference.state = StateBytesOf(*run.trainer);
  return reference;
}

void ExpectSaves(Trainer& trainer, const Reference& reference, const std::vector<int>& steps) {
  const std::vector<FinishedSave> saves = trainer.TakeFinishedSaves();
  ASSERT_EQ(saves.size(), steps.size());
  for (std::size_t i = 0; i < saves.size(); ++i) {
    EXPECT_TRUE(saves[i].status.ok()) << saves[i].status;
    EXPECT_EQ(saves[i].step, steps[i]);
    EXPECT_EQ(FileIn(saves[i].directory), reference.saves[static_cast<std::size_t>(steps[i])]);
  }
}

class TrainerSavesTest : public ::testing::TestWithParam<SavingCase> {};

TEST_P(TrainerSavesTest, EverySaveIsThatOfTheStepsDoneWhenItWasAskedFor) {
  const TrainConfig train = ConfigOf(GetParam());
  const Reference reference = ReferenceOf(train);
  for (const int every : {1, 2, 3}) {
    SCOPED_TRACE(every);
    SavingTrainer run(train);
    std::vector<TempDirectory> directories(kSavedSteps + 1);
    std::vector<int> asked;
    for (int step = 1; step <= kSavedSteps; ++step) {
      const UpdateTime update = step == 4 ? UpdateTime::kNow : kLater;
      const absl::StatusOr<StepResult> result = run->Step(update);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->loss, reference.losses[static_cast<std::size_t>(step) - 1]);
      if (step % every != 0) continue;
      const std::string& directory = directories[static_cast<std::size_t>(step)].path();
      ASSERT_TRUE(run->StartSave(directory, "note").ok());
      asked.push_back(step);
    }
    EXPECT_TRUE(run->FinishSave().ok());
    ExpectSaves(*run.trainer, reference, asked);
    EXPECT_EQ(StateBytesOf(*run.trainer), reference.state);
    EXPECT_TRUE(run->FinishSave().ok()) << "no save is under way";
    EXPECT_TRUE(run->TakeFinishedSaves().empty());
  }
}

TEST_P(TrainerSavesTest, StepsWhoseUpdatesWriteASaveHaveAKeyOfTheirOwn) {
  const TrainConfig train = ConfigOf(GetParam());
  SavingTrainer run(train);
  const TempDirectory directory;
  std::vector<std::string> keys;
  for (int step = 1; step <= kSavedSteps; ++step) {
    const UpdateTime update = step == kSavedSteps ? UpdateTime::kNow : kLater;
    keys.push_back(run->Step(update).value().key);
    if (step == 2 || step == 5) {
      ASSERT_TRUE(run->StartSave(directory.path()).ok());
    }
  }
  // Clipping leaves all updates to the next step.
  const std::string early = train.clip_norm > 0 ? "train" : "train.save";
  EXPECT_EQ(keys,
            (std::vector<std::string>{
                "train.first", "train", early, "train.save", "train", "train.last.save"}));
  EXPECT_TRUE(run->step_keys().contains("train.save"));
  EXPECT_TRUE(run->FinishSave().ok());
  EXPECT_EQ(run->Step(kLater).value().key, "train.first");
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TrainerSavesTest,
    ::testing::Values(SavingCase{.clip_norm = 1},
                      SavingCase{.clip_norm = 0},
                      SavingCase{.clip_norm = 0, .micro_batches = 2},
                      SavingCase{.clip_norm = 1, .micro_batches = 2, .states = StateType::k8Bit}));

TEST(TrainerSaves, ReadingParametersLeavesASaveWhole) {
  const TrainConfig train = TinyTrain();
  const Reference reference = ReferenceOf(train);
  const TempDirectory first, second, third, fourth;
  SavingTrainer run(train);
  ASSERT_TRUE(run->Step(kLater).ok());
  ASSERT_TRUE(run->StartSave(first.path(), "note").ok());
  ASSERT_TRUE(run->Validate().ok());
  ASSERT_TRUE(run->Step(kLater).ok());
  ASSERT_TRUE(run->StartSave(second.path(), "note").ok());
  ASSERT_TRUE(run->SaveState(third.path(), "note").ok());
  EXPECT_EQ(FileIn(third.path()), reference.saves[2]);
  ASSERT_TRUE(run->StartSave(fourth.path(), "note").ok());
  ASSERT_TRUE(run->LoadState(third.path()).ok());
  ExpectSaves(*run.trainer, reference, {1, 2, 2});
}

TEST(TrainerSaves, ASaveThatCannotBeMadeStopsNoStep) {
  const TrainConfig train = TinyTrain();
  const Reference reference = ReferenceOf(train);
  const TempDirectory directory;
  const std::string none = directory.path() + "/none";
  SavingTrainer run(train);
  ASSERT_TRUE(run->Step(kLater).ok());
  ASSERT_TRUE(run->StartSave(none).ok()) << "the directory is looked for later";
  ASSERT_TRUE(run->Step(kLater).ok());
  std::vector<FinishedSave> saves = run->TakeFinishedSaves();
  ASSERT_EQ(saves.size(), 1U);
  EXPECT_EQ(saves[0].step, 1);
  EXPECT_EQ(saves[0].status.code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(run->StartSave(none).ok());
  EXPECT_EQ(run->FinishSave().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(run->StartSave(directory.path(), "note").ok());
  EXPECT_TRUE(run->FinishSave().ok());
  EXPECT_EQ(FileIn(directory.path()), reference.saves[2]);
}

TEST(TrainerSaves, ASaveThatIsGivenUpLeavesTheOlderOne) {
  const TrainConfig train = TinyTrain();
  const Reference reference = ReferenceOf(train);
  const TempDirectory directory;
  SavingTrainer run(train);
  ASSERT_TRUE(run->Step(kLater).ok());
  ASSERT_TRUE(run->SaveState(directory.path(), "note").ok());
  run->GiveUpSave(1);
  ASSERT_TRUE(run->Step(kLater).ok());
  // The save of step 2 is given up before its snapshot is made, the save of step 3 under way.
  ASSERT_TRUE(run->StartSave(directory.path(), "note").ok());
  run->GiveUpSave(1);
  run->GiveUpSave(2);
  ASSERT_TRUE(run->Step(UpdateTime::kNow).ok());
  ASSERT_TRUE(run->StartSave(directory.path(), "note").ok());
  run->GiveUpSave(3);
  EXPECT_EQ(run->FinishSave().code(), absl::StatusCode::kCancelled);
  const std::vector<FinishedSave> saves = run->TakeFinishedSaves();
  ASSERT_EQ(saves.size(), 2U);
  for (const FinishedSave& save : saves) {
    EXPECT_EQ(save.status.code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(FileIn(directory.path()), reference.saves[1]);
  ASSERT_TRUE(run->Step(kLater).ok());
  EXPECT_TRUE(run->SaveState(directory.path(), "note").ok());
  EXPECT_EQ(FileIn(directory.path()), reference.saves[4]);
}

/// Parameters whose first loss is a number, and whose first update makes them none: the token 0,
/// which the text does not have, gets a logit of minus infinity.
absl::Status FillWithInfinity(Trainer& trainer) {
  const auto value = [](const std::string& parameter, std::uint64_t element) {
    if (parameter == "tokens" && element == 0) return -std::numeric_limits<float>::infinity();
    if (parameter.starts_with("final.")) {
      return (element == 0) == (parameter == "final.bias") ? 1.0F : 0.0F;
    }
    if (parameter.ends_with("gain")) return 1.0F;
    return parameter.ends_with("bias") ? 0.0F
                                       : static_cast<float>(element * 37 % 101) * 4e-4F - 0.02F;
  };
  return trainer.FillParameters(
      [&](const std::string& parameter, std::uint64_t element, std::span<float> values) {
        for (float& each : values) each = value(parameter, element++);
        return absl::OkStatus();
      });
}

TEST(TrainerSaves, ASaveThatLedToALossThatIsNoNumberLeavesTheOlderOne) {
  // The second update writes all parts of the save within its own step, or in the next one's.
  for (const UpdateTime second : {UpdateTime::kNow, kLater}) {
    SCOPED_TRACE(second == UpdateTime::kNow ? "now" : "later");
    const TempDirectory directory;
    SavingTrainer run(TinyTrain());
    ASSERT_TRUE(FillWithInfinity(*run.trainer).ok());
    ASSERT_TRUE(run->SaveState(directory.path(), "note").ok());
    const std::string older = FileIn(directory.path());
    ASSERT_TRUE(std::isfinite(run->Step(kLater).value().loss));
    ASSERT_TRUE(run->StartSave(directory.path(), "note").ok());
    ASSERT_FALSE(std::isfinite(run->Step(second).value().loss));
    EXPECT_EQ(run->FinishSave().code(), absl::StatusCode::kCancelled);
    EXPECT_TRUE(FileIn(directory.path()) == older);
  }
}

TEST(TrainerSaves, SavesThatCannotBeMadeAreRefused) {
  const Dataset data = TinyDataset();
  RamMemory ram;
  const auto trainer = Trainer::Create(TinyModel(), TinyTrain(), data, ram);
  EXPECT_EQ((*trainer)->StartSave("/nowhere").code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE((*trainer)->FinishSave().ok());
  SavingTrainer run(TinyTrain());
  ASSERT_TRUE(run->Step(UpdateTime::kNever).ok());
  EXPECT_EQ(run->StartSave("/nowhere").code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sluice::gpt
