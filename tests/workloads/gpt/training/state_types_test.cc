#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "sluice/runtime.h"
#include "tests/support/temp_directory.h"
#include "tests/workloads/gpt/gpt_fixture.h"
#include "workloads/gpt/memory/paged_memory.h"
#include "workloads/gpt/memory/ram_memory.h"
#include "workloads/gpt/training/footprint.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {
namespace {

using sluice::testing::TempDirectory;
using ::testing::HasSubstr;

/// Some moments share pages of 4 KiB with their scales, some have pages of their own.
constexpr Bytes kStatesPage = 4_KiB;

/// Bytes of a moment, and of its scales, of `elements`.
std::size_t MomentSize(StateType type, std::size_t elements) {
  if (type == StateType::k8Bit) return elements;
  return elements * (type == StateType::kBf16 ? 2 : 4);
}

class StateTypesTest : public ::testing::TestWithParam<StateType> {
 protected:
  StateTypesTest() {
    model_.layers = 8;
    train_.states = GetParam();
  }

  void SetUp() override {
    const absl::StatusOr<Footprint> footprint = MeasureFootprint(model_, train_, kStatesPage);
    ASSERT_TRUE(footprint.ok()) << footprint.status();
    footprint_ = *footprint;
  }

  RuntimeOptions Options(std::uint64_t spare) const {
    RuntimeOptions options{.page_bytes = kStatesPage};
    options.hbm_bytes = footprint_.op_hbm_max + kStatesPage * spare;
    options.dram_bytes = footprint_.op_dram_max + kStatesPage * spare;
    options.nvme_bytes = footprint_.tensors + footprint_.padding + kStatesPage * 64;
    options.io.directory = directory_.path();
    options.fill_overwrite_with_nan = true;
    return options;
  }

  std::unique_ptr<Trainer> MakeTrainer(Memory& memory, const Dataset& data) {
    auto trainer = Trainer::Create(model_, train_, data, memory);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return *std::move(trainer);
  }

  static absl::Status MakeSteps(Trainer& trainer, int steps) {
    for (int i = 0; i < steps; ++i) {
      const UpdateTime update = i % 3 == 2 ? UpdateTime::kNow : UpdateTime::kDeferred;
      if (const auto step = trainer.Step(update); !step.ok()) return step.status();
    }
    return absl::OkStatus();
  }

  StateBytes TrainedInRam(int steps) {
    RamMemory memory;
    const Dataset data = TinyDataset(train_);
    const auto trainer = MakeTrainer(memory, data);
    EXPECT_TRUE(MakeSteps(*trainer, steps).ok());
    return StateBytesOf(*trainer);
  }

  ModelConfig model_ = TinyModel();
  TrainConfig train_ = TinyTrain();
  TempDirectory directory_;
  Footprint footprint_;
};

TEST_P(StateTypesTest, MatchRamBitForBit) {
  const auto runtime = Runtime::Create(Options(12));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  const Dataset data = TinyDataset(train_);
  const auto trainer = MakeTrainer(memory, data);
  const absl::Status made = MakeSteps(*trainer, 5);
  ASSERT_TRUE(made.ok()) << made;
  const StateBytes ram = TrainedInRam(5), paged = StateBytesOf(*trainer);
  ASSERT_EQ(paged.size(), ram.size());
  for (const auto& [name, bytes] : ram) EXPECT_TRUE(paged.at(name) == bytes) << name;
}

TEST_P(StateTypesTest, MatchRamWhereAMatrixTakesSeveralOps) {
  model_ = {.layers = 1, .heads = 2, .width = 260, .context = 9, .vocab = 64};
  SetUp();
  const auto runtime = Runtime::Create(Options(200));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  const Dataset data = TinyDataset(train_);
  const auto trainer = MakeTrainer(memory, data);
  const absl::Status made = MakeSteps(*trainer, 3);
  ASSERT_TRUE(made.ok()) << made;
  const StateBytes ram = TrainedInRam(3), paged = StateBytesOf(*trainer);
  for (const auto& [name, bytes] : ram) EXPECT_TRUE(paged.at(name) == bytes) << name;
}

TEST_P(StateTypesTest, AreStreamedAsTheyAreKept) {
  const StateBytes state = TrainedInRam(2);
  const bool scaled = GetParam() == StateType::k8Bit;
  for (const auto& [name, bytes] : state) {
    if (name.ends_with(".m") || name.ends_with(".v") || name.ends_with(".scale")) continue;
    const std::size_t elements = bytes.size() / sizeof(float);
    for (const char* const moment : {".m", ".v"}) {
      EXPECT_EQ(state.at(name + moment).size(), MomentSize(GetParam(), elements)) << name;
      const auto scales = state.find(name + moment + ".scale");
      ASSERT_EQ(scales != state.end(), scaled) << name;
      if (!scaled) continue;
      EXPECT_EQ(scales->second.size(), (elements + 255) / 256 * sizeof(float)) << name;
      EXPECT_NE(scales->second.substr(0, 4), std::string(4, '\0')) << name << moment;
    }
  }
}

TEST_P(StateTypesTest, TakeThePagesThatTheFootprintSays) {
  const auto runtime = Runtime::Create(Options(12));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  const Dataset data = TinyDataset(train_);
  const auto trainer = MakeTrainer(memory, data);
  EXPECT_EQ((*runtime)->GetStats().padding_bytes, footprint_.padding.count());
}

TEST_P(StateTypesTest, FitWhereTheFootprintSays) {
  constexpr std::uint64_t kTransitPages = 16;
  const auto runtime = Runtime::Create(Options(kTransitPages));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  const Dataset data = TinyDataset(train_);
  EXPECT_TRUE(MakeSteps(*MakeTrainer(memory, data), 3).ok());
}

TEST_P(StateTypesTest, AreSavedAndGoOnWithTheSameBits) {
  const Dataset data = TinyDataset(train_);
  const TempDirectory saved;
  for (const int from : {0, 3}) {
    const auto runtime = Runtime::Create(Options(12));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    PagedMemory memory(**runtime);
    const auto trainer = MakeTrainer(memory, data);
    if (from > 0) {
      const absl::Status loaded = trainer->LoadState(saved.path());
      ASSERT_TRUE(loaded.ok()) << loaded;
    }
    ASSERT_TRUE(MakeSteps(*trainer, 3).ok());
    const absl::Status written = trainer->SaveState(saved.path());
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_TRUE(StateBytesOf(*trainer) == TrainedInRam(from + 3)) << from;
  }
}

TEST_P(StateTypesTest, StatesOfAnotherTypeAreNotLoaded) {
  const TempDirectory saved;
  const Dataset data = TinyDataset(train_);
  {
    const auto runtime = Runtime::Create(Options(12));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    PagedMemory memory(**runtime);
    ASSERT_TRUE(MakeTrainer(memory, data)->SaveState(saved.path()).ok());
  }
  const RuntimeOptions options = Options(40);
  const std::string mine(ToString(GetParam()));
  train_.states = GetParam() == StateType::kBf16 ? StateType::k8Bit : StateType::kBf16;
  const std::string other(ToString(train_.states));
  const auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  const absl::Status loaded = MakeTrainer(memory, data)->LoadState(saved.path());
  EXPECT_EQ(loaded.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(loaded.message()), HasSubstr(mine));
  EXPECT_THAT(std::string(loaded.message()), HasSubstr(other));
}

INSTANTIATE_TEST_SUITE_P(All,
                         StateTypesTest,
                         ::testing::Values(StateType::kFp32, StateType::kBf16, StateType::k8Bit),
                         [](const auto& type) { return std::string(ToString(type.param)); });

}  // namespace
}  // namespace sluice::gpt
