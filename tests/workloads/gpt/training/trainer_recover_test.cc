// A disk that takes no more pages, at each moment of a step: what can be saved is one whole step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "sluice/runtime.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"
#include "tests/workloads/gpt/gpt_fixture.h"
#include "workloads/gpt/compute/compute_threads.h"
#include "workloads/gpt/memory/paged_memory.h"
#include "workloads/gpt/training/footprint.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {
namespace {

using sluice::testing::IsOk;
using sluice::testing::RuntimeFixture;
using sluice::testing::StoreFaults;
using sluice::testing::TempDirectory;

constexpr int kRecoverSteps = 6;

struct RecoverCase {
  const char* name;
  double clip_norm;
  UpdateTime update;
  bool fails_reads;
};

class TrainerRecoverTest : public ::testing::TestWithParam<RecoverCase> {
 protected:
  void SetUp() override {
    model_.layers = 4;
    train_.micro_batches = 2;
    train_.clip_norm = GetParam().clip_norm;
    data_ = std::make_unique<Dataset>(TinyDataset(train_));
    const absl::StatusOr<Footprint> footprint =
        MeasureFootprint(model_, train_, Bytes(RuntimeFixture::kPage));
    ASSERT_THAT(footprint, IsOk());
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.options.hbm_bytes = footprint->op_hbm_max + Bytes(RuntimeFixture::kPage * 8);
    runtime_.options.dram_bytes = footprint->op_dram_max + Bytes(RuntimeFixture::kPage * 8);
    SaveEveryStep();
  }

  void Make() {
    trainer_.reset();
    memory_.reset();
    runtime_.Start();
    memory_ = std::make_unique<PagedMemory>(*runtime_);
    auto trainer = Trainer::Create(model_, train_, *data_, *memory_);
    ASSERT_THAT(trainer, IsOk());
    trainer_ = *std::move(trainer);
  }

  std::string Saved() {
    const TempDirectory directory;
    const absl::Status saved = trainer_->SaveState(directory.path());
    EXPECT_THAT(saved, IsOk());
    return FileIn(directory.path());
  }
  static std::string FileIn(const std::string& directory) {
    std::ifstream in(directory + "/optimizer.sluice", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  void SaveEveryStep() {
    Make();
    unbroken_.push_back(Saved());
    for (int step = 0; step < kRecoverSteps; ++step) {
      ASSERT_THAT(trainer_->Step(GetParam().update).status(), IsOk());
      unbroken_.push_back(Saved());
    }
  }

  void Fail(const absl::Status& status) {
    if (GetParam().fails_reads) {
      faults_.FailReads(status);
    } else {
      faults_.FailWrites(status);
    }
  }

  /// Trains until it fails, from op `op` of the step after `steps` on. False: it did not fail.
  bool TrainUntilFailure(int op, int steps = 2) {
    return TrainUntilFailure(op, steps, [this] { Fail(absl::ResourceExhaustedError("ENOSPC")); });
  }
  bool TrainUntilFailure(int op, int steps, const std::function<void()>& fail) {
    int ops = 0;
    for (int i = 0; i < steps; ++i) EXPECT_THAT(trainer_->Step(GetParam().update).status(), IsOk());
    memory_->SetObserver([&](const OpTiming&) {
      if (++ops == op) fail();
    });
    while (trainer_->step() < kRecoverSteps - 1) {
      if (!trainer_->Step(GetParam().update).ok()) break;
    }
    memory_->SetObserver({});
    return !trainer_->failure().ok();
  }

  ModelConfig model_ = TinyModel();
  TrainConfig train_ = TinyTrain();
  std::unique_ptr<Dataset> data_;
  StoreFaults faults_;
  RuntimeFixture runtime_;
  std::unique_ptr<PagedMemory> memory_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<std::string> unbroken_;  ///< saves by step
};

TEST_P(TrainerRecoverTest, OneWholeStepIsSaved) {
  std::map<std::string, int> seen;
  for (int op = 1; op < 60; op += 7) {
    Make();
    if (!TrainUntilFailure(op)) {
      Fail(absl::OkStatus());
      ++seen["no failure"];
      continue;
    }
    const int step = trainer_->step();
    EXPECT_THAT(trainer_->Validate(), ::testing::Not(IsOk()));
    absl::Status whole = trainer_->Recover();
    ++seen[whole.ok() ? "while it failed" : std::string(absl::StatusCodeToString(whole.code()))];
    Fail(absl::OkStatus());
    if (!whole.ok()) whole = trainer_->Recover();
    if (absl::IsFailedPrecondition(whole)) {
      EXPECT_EQ(GetParam().clip_norm, 0) << "op " << op << ": " << whole;
      continue;
    }
    ASSERT_THAT(whole, IsOk());
    EXPECT_EQ(trainer_->step(), step);
    EXPECT_TRUE(Saved() == unbroken_[static_cast<std::size_t>(step)]) << "op " << op;
    ASSERT_THAT(trainer_->Step(GetParam().update).status(), IsOk());
    EXPECT_TRUE(Saved() == unbroken_[static_cast<std::size_t>(step) + 1]) << "op " << op;
  }
  EXPECT_LT(seen["no failure"], 4) << "the faults must be met";
  for (const auto& [what, count] : seen) RecordProperty(what, count);
}

/// The result of a refused product is garbage.
TEST_P(TrainerRecoverTest, AProductThatIsRefusedEndsTheStepBeforeAnUpdateTakesIt) {
  const absl::Status refused = absl::ResourceExhaustedError("no memory for a product");
  for (int op = 1; op < 60; op += 19) {
    SCOPED_TRACE(op);
    Make();
    const auto refuse = [&] { trainer_->compute_threads().NoteFailure(refused); };
    ASSERT_TRUE(TrainUntilFailure(op, 2, refuse));
    EXPECT_EQ(trainer_->failure(), refused);
    const int step = trainer_->step();
    const absl::Status whole = trainer_->Recover();
    if (absl::IsFailedPrecondition(whole)) continue;  // updates had begun before
    ASSERT_THAT(whole, IsOk());
    EXPECT_TRUE(Saved() == unbroken_[static_cast<std::size_t>(step)]);
  }
}

TEST_P(TrainerRecoverTest, TheEndOfASaveRunsNoOpThatWasGivenUp) {
  int wanted = 0;
  for (int op = 1; op < 40; op += 9) {
    Make();
    for (int i = 0; i < 2; ++i) {
      ASSERT_THAT(trainer_->Step(GetParam().update).status(), IsOk());
    }
    const TempDirectory directory;
    ASSERT_THAT(trainer_->StartSave(directory.path()), IsOk());
    // The op that was asked for next has its pages.
    const auto refuse = [&] {
      trainer_->compute_threads().NoteFailure(absl::ResourceExhaustedError("no memory"));
    };
    ASSERT_TRUE(TrainUntilFailure(op, 0, refuse));
    int ops = 0;
    memory_->SetObserver([&](const OpTiming&) { ++ops; });
    wanted += trainer_->TakeFinishedSaves().empty() ? 1 : 0;
    EXPECT_THAT(trainer_->FinishSave(), IsOk()) << "op " << op;
    EXPECT_EQ(ops, 0) << "op " << op;
    EXPECT_TRUE(FileIn(directory.path()) == unbroken_[2]) << "op " << op;
  }
  EXPECT_GT(wanted, 0) << "a fault must come before the save is over";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TrainerRecoverTest,
    ::testing::Values(RecoverCase{"WritesClipped", 1, UpdateTime::kDeferred, false},
                      RecoverCase{"WritesClippedNow", 1, UpdateTime::kNow, false},
                      RecoverCase{"WritesEarly", 0, UpdateTime::kDeferred, false},
                      RecoverCase{"ReadsClipped", 1, UpdateTime::kDeferred, true},
                      RecoverCase{"ReadsEarly", 0, UpdateTime::kDeferred, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sluice::gpt
