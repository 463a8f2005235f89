#include "workloads/gpt/training/recompute.h"

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
#include "workloads/gpt/training/footprint.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {
namespace {

using sluice::testing::TempDirectory;
using ::testing::ElementsAre;

constexpr Bytes kPage = 4_KiB;
constexpr int kLayers = 6;
constexpr int kGroups = 4;

ModelConfig RecomputeModel() {
  ModelConfig model = TinyModel();
  model.layers = kLayers;
  return model;
}

/// A configuration with more bytes of activations than of parameters.
TrainConfig Train(Recompute recompute = Recompute::kNone) {
  TrainConfig train = TinyTrain();
  train.batch = 8;
  train.recompute = recompute;
  return train;
}

const RecomputeChoice kNoLayer(kLayers, false);
const RecomputeChoice kEveryLayer(kLayers, true);
const RecomputeChoice kSomeLayers = {true, false, false, true, true, false};

/// Everything that a run computes, and the keys of its steps.
struct RecomputeResults {
  std::vector<float> losses;
  std::vector<double> norms;
  State state;
  std::vector<std::string> keys;
};

void ExpectSameBits(const RecomputeResults& a, const RecomputeResults& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_TRUE(a.state == b.state);
}

/// A step per choice; every third update runs at the end of its step.
RecomputeResults TrainIn(Memory& memory, const std::vector<RecomputeChoice>& choices) {
  RecomputeResults results;
  const Dataset data = TinyDataset(Train());
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(RecomputeModel(), Train(), data, memory);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_TRUE((*trainer)->SetRecompute(choices[i]).ok());
    const absl::StatusOr<StepResult> step =
        (*trainer)->Step(i % 3 == 2 ? UpdateTime::kNow : UpdateTime::kDeferred);
    EXPECT_TRUE(step.ok()) << step.status();
    results.losses.push_back(step->loss);
    results.norms.push_back(step->grad_norm);
    results.keys.push_back(step->key);
  }
  results.state = StateOf(**trainer);
  return results;
}

RecomputeResults RecomputeInRam(const std::vector<RecomputeChoice>& choices) {
  RamMemory memory;
  return TrainIn(memory, choices);
}

using Choices = std::vector<RecomputeChoice>;

const Choices kMixture = {kSomeLayers,
                          kSomeLayers,
                          kNoLayer,
                          kEveryLayer,
                          kSomeLayers,
                          kNoLayer,
                          kEveryLayer,
                          kEveryLayer,
                          kSomeLayers};
const Choices kKeepAll(kMixture.size(), kNoLayer);

TEST(Recompute, EveryChoiceGivesTheSameBitsInRam) {
  const RecomputeResults kept = RecomputeInRam(kKeepAll);
  ExpectSameBits(RecomputeInRam(Choices(kMixture.size(), kEveryLayer)), kept);
  ExpectSameBits(RecomputeInRam(kMixture), kept);
}

TEST(Recompute, TheConfigurationsChoiceIsEveryLayerOrNone) {
  const Dataset data = TinyDataset(Train());
  for (const Recompute recompute : {Recompute::kNone, Recompute::kAll, Recompute::kPlanned}) {
    RamMemory memory;
    const auto trainer = Trainer::Create(RecomputeModel(), Train(recompute), data, memory);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_EQ((*trainer)->recompute(), recompute == Recompute::kAll ? kEveryLayer : kNoLayer);
  }
}

TEST(Recompute, AChoiceHasOneElementPerLayer) {
  RamMemory memory;
  const Dataset data = TinyDataset(Train());
  const auto trainer = Trainer::Create(RecomputeModel(), Train(), data, memory);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const absl::Status refused = (*trainer)->SetRecompute({true});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), "a choice for 1 layers, the model has 6");
  EXPECT_EQ((*trainer)->recompute(), kNoLayer);
}

TEST(Recompute, KeysNameTheChoice) {
  EXPECT_EQ(KeySuffix({false, false}), "");
  EXPECT_EQ(KeySuffix({true, true, true}), ".recompute");
  EXPECT_EQ(KeySuffix({true, false, true, true, true, false, true}), ".recompute.0,2-4,6");
  EXPECT_THAT(
      RecomputeInRam({kNoLayer, kNoLayer, kSomeLayers, kEveryLayer}).keys,
      ElementsAre("train.first", "train", "train.last.recompute.0,3-4", "train.first.recompute"));
}

/// Bytes that recomputation saves. At any time, only one group of one layer has more than its
/// input; without it all groups have. The most are then live at the end of the backward, beside the
/// gradients.
std::uint64_t LessBytes() {
  // An element per row and width: ln1, 3 of qkv, attention, middle, ln2, 4 of fc and of gelu.
  const std::uint64_t rows = 2 * 9;
  const std::uint64_t probabilities = 2 * 2 * 9 * 9;
  const std::uint64_t stash = 4 * (rows * 15 * 20 + probabilities);
  const std::uint64_t gradients = 4 * static_cast<std::uint64_t>(ParameterCount(RecomputeModel()));
  return (kLayers * kGroups - 1) * stash - gradients;
}

TEST(Recompute, FewerBytesLive) {
  const auto kept = MeasureFootprint(RecomputeModel(), Train(Recompute::kNone), kPage);
  const auto again = MeasureFootprint(RecomputeModel(), Train(Recompute::kAll), kPage);
  ASSERT_TRUE(kept.ok() && again.ok());
  EXPECT_EQ(again->ops_per_step, kept->ops_per_step + 3 * kLayers * kGroups);
  EXPECT_GE(kept->live_max.count(), again->live_max.count() + LessBytes());
}

TEST(Recompute, APlanMayBeAnyChoice) {
  const auto kept = MeasureFootprint(RecomputeModel(), Train(Recompute::kNone), kPage);
  const auto again = MeasureFootprint(RecomputeModel(), Train(Recompute::kAll), kPage);
  const auto planned = MeasureFootprint(RecomputeModel(), Train(Recompute::kPlanned), kPage);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->live_max, kept->live_max);
  EXPECT_EQ(planned->ops_per_step, again->ops_per_step);
  EXPECT_EQ(planned->op_hbm_max, kept->op_hbm_max);
}

class PagedRecomputeTest : public ::testing::Test {
 protected:
  /// Trains with room for a fraction of the bytes. Overwritten tensors are filled with NaN first.
  RecomputeResults TrainPaged(const Choices& choices) {
    const auto footprint = MeasureFootprint(RecomputeModel(), Train(), kPage);
    EXPECT_TRUE(footprint.ok()) << footprint.status();
    RuntimeOptions options{.page_bytes = kPage};
    options.hbm_bytes = footprint->op_hbm_max + kPage * 12;
    options.dram_bytes = footprint->op_dram_max + kPage * 12;
    options.nvme_bytes = footprint->tensors + footprint->padding + kPage * 256;
    options.io.directory = directory_.path();
    options.fill_overwrite_with_nan = true;
    absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Create(std::move(options));
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
    PagedMemory memory(*runtime_);
    return TrainIn(memory, choices);
  }

  std::vector<std::string> RecordedOps(const std::string& key) {
    const absl::StatusOr<Schedule> schedule = runtime_->RecordedSchedule(key);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    std::vector<std::string> names;
    for (const ScheduleOp& op : schedule->ops) names.push_back(op.name);
    return names;
  }

  TempDirectory directory_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(PagedRecomputeTest, EveryChoiceGivesTheBitsOfRam) {
  const RecomputeResults ram = RecomputeInRam(kKeepAll);
  for (const Choices& choices : {kKeepAll, Choices(kMixture.size(), kEveryLayer), kMixture}) {
    SCOPED_TRACE(KeySuffix(choices.front()));
    ExpectSameBits(TrainPaged(choices), ram);
    EXPECT_EQ(runtime_->GetStats().schedule_divergences, 0u) << "a choice has keys of its own";
    EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
  }
}

TEST_F(PagedRecomputeTest, FewerBytesLive) {
  TrainPaged(kKeepAll);
  const std::uint64_t kept = runtime_->GetStats().live_bytes_peak;
  TrainPaged(Choices(kMixture.size(), kEveryLayer));
  const std::uint64_t again = runtime_->GetStats().live_bytes_peak;
  EXPECT_GE(kept, again + LessBytes());
}

TEST_F(PagedRecomputeTest, SchedulesShowWhatRunsAgain) {
  TrainPaged(kMixture);
  const std::vector<std::string> none = RecordedOps("train.last");
  const std::vector<std::string> some = RecordedOps("train.recompute.0,3-4");
  const auto again = [](const std::string& name) { return name.starts_with("recompute."); };
  EXPECT_EQ(std::count_if(none.begin(), none.end(), again), 0);
  EXPECT_EQ(std::count_if(some.begin(), some.end(), again), 3 * kGroups * 3);
  const auto at = std::find(some.begin(), some.end(), "recompute.l3.qkv.g1");
  ASSERT_LT(at, some.end() - 3);
  EXPECT_THAT((std::vector<std::string>(at, at + 4)),
              ElementsAre("recompute.l3.qkv.g1",
                          "recompute.l3.attention.g1",
                          "recompute.l3.mlp.g1",
                          "l3.proj.backward.g1"));
}

}  // namespace
}  // namespace sluice::gpt
