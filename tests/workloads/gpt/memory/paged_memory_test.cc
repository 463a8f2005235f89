#include "workloads/gpt/memory/paged_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sluice/runtime.h"
#include "sluice/schedule.h"
#include "tests/support/temp_directory.h"
#include "tests/workloads/gpt/gpt_fixture.h"
#include "workloads/gpt/training/footprint.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {
namespace {

using sluice::testing::TempDirectory;
using ::testing::HasSubstr;

constexpr Bytes kPagedPage = 4_KiB;
constexpr int kSteps = 6;

/// Deeper than the tiny model, so that most of it does not fit.
ModelConfig DeepModel() {
  ModelConfig model = TinyModel();
  model.layers = 8;
  return model;
}

/// Everything that a run computes.
struct Results {
  std::vector<float> losses;
  std::vector<double> norms;
  std::vector<float> val_losses;
  State state;
  friend bool operator==(const Results&, const Results&) = default;
};

/// Trains with validations in between and updates at either time, so that several keys alternate.
/// Errors: those of the trainer.
absl::StatusOr<Results> TrainIn(Memory& memory) {
  const Dataset data = TinyDataset();
  absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(DeepModel(), TinyTrain(), data, memory);
  if (!trainer.ok()) return trainer.status();
  Results results;
  for (int i = 0; i < kSteps; ++i) {
    if (i % 2 == 0) {
      const absl::StatusOr<float> loss = (*trainer)->Validate();
      if (!loss.ok()) return loss.status();
      results.val_losses.push_back(*loss);
    }
    const UpdateTime update = i % 4 == 3 ? UpdateTime::kNow : UpdateTime::kDeferred;
    const absl::StatusOr<StepResult> step = (*trainer)->Step(update);
    if (!step.ok()) return step.status();
    results.losses.push_back(step->loss);
    results.norms.push_back(step->grad_norm);
  }
  results.state = StateOf(**trainer);
  return results;
}

Results TrainInRam() {
  RamMemory memory;
  absl::StatusOr<Results> results = TrainIn(memory);
  EXPECT_TRUE(results.ok()) << results.status();
  return *std::move(results);
}

class PagedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<Footprint> footprint =
        MeasureFootprint(DeepModel(), TinyTrain(), kPagedPage);
    ASSERT_TRUE(footprint.ok()) << footprint.status();
    footprint_ = *footprint;
  }

  /// Budgets that hold the largest op and `spare` pages in each tier.
  RuntimeOptions Options(std::uint64_t spare) const {
    RuntimeOptions options{.page_bytes = kPagedPage};
    options.hbm_bytes = footprint_.op_hbm_max + kPagedPage * spare;
    options.dram_bytes = footprint_.op_dram_max + kPagedPage * spare;
    options.nvme_bytes = footprint_.tensors + footprint_.padding + kPagedPage * 256;
    options.io.directory = directory_.path();
    // NaNs in overwritten tensors show an op that reads what it declares as overwrite, or needs
    // what it discards.
    options.fill_overwrite_with_nan = true;
    return options;
  }

  absl::StatusOr<Results> TrainPaged(RuntimeOptions options, Stats* stats = nullptr) {
    absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Create(std::move(options));
    if (!runtime.ok()) return runtime.status();
    PagedMemory memory(**runtime);
    absl::StatusOr<Results> results = TrainIn(memory);
    if (stats != nullptr) *stats = (*runtime)->GetStats();
    return results;
  }

  void ExpectIdentical(RuntimeOptions options) {
    const absl::StatusOr<Results> paged = TrainPaged(std::move(options));
    ASSERT_TRUE(paged.ok()) << paged.status();
    const Results ram = TrainInRam();
    EXPECT_EQ(paged->losses, ram.losses);
    EXPECT_EQ(paged->norms, ram.norms);
    EXPECT_EQ(paged->val_losses, ram.val_losses);
    for (const auto& [name, values] : ram.state) {
      EXPECT_EQ(paged->state.at(name), values) << name;
    }
  }

  TempDirectory directory_;
  Footprint footprint_;
};

TEST_F(PagedMemoryTest, MatchesRamBitForBitWhereAThirdFits) {
  const RuntimeOptions options = Options(12);
  EXPECT_LT((options.hbm_bytes + options.dram_bytes).count() * 3, footprint_.live_max.count());
  ExpectIdentical(options);
}

TEST_F(PagedMemoryTest, MatchesRamUnderEveryPolicy) {
  const Results ram = TrainInRam();
  for (const char* policy : {"next-use-cost",
                             "fifo",
                             "clock",
                             "lfu",
                             "2q",
                             "arc",
                             "s3fifo",
                             "sieve",
                             "gdsf",
                             "random"}) {
    SCOPED_TRACE(policy);
    RuntimeOptions options = Options(12);
    options.policy = policy;
    const absl::StatusOr<Results> paged = TrainPaged(std::move(options));
    ASSERT_TRUE(paged.ok()) << paged.status();
    EXPECT_EQ(*paged, ram);
  }
}

TEST_F(PagedMemoryTest, MatchesRamWithAndWithoutLookahead) {
  for (const char* policy : {"min", "lru"}) {
    for (const std::uint32_t ahead : {0u, 3u, 40u}) {
      SCOPED_TRACE(::testing::Message() << policy << ", " << ahead << " ops ahead");
      RuntimeOptions options = Options(16);
      options.policy = policy;
      options.prefetch_ops = ahead;
      ExpectIdentical(options);
    }
  }
}

TEST_F(PagedMemoryTest, MatchesRamAtTheSmallestBudgetsThatAreNotRefused) {
  for (std::uint64_t spare = 0; spare < 10; ++spare) {
    const absl::StatusOr<Results> paged = TrainPaged(Options(spare));
    if (!paged.ok()) {
      ASSERT_EQ(paged.status().code(), absl::StatusCode::kResourceExhausted) << paged.status();
      continue;
    }
    EXPECT_EQ(*paged, TrainInRam()) << spare;
    return;
  }
  FAIL() << "10 pages more than the largest op are too few";
}

TEST_F(PagedMemoryTest, BudgetBelowTheLargestOpNamesItAndTheBytes) {
  RuntimeOptions options = Options(16);
  options.hbm_bytes = footprint_.op_hbm_max - kPagedPage;
  const absl::Status status = TrainPaged(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("l0.mlp.forward.g0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("hbm"));
}

TEST_F(PagedMemoryTest, RepeatsItselfAndKeepsWithinBudgets) {
  const RuntimeOptions options = Options(16);
  Stats stats;
  const absl::StatusOr<Results> paged = TrainPaged(options, &stats);
  ASSERT_TRUE(paged.ok()) << paged.status();
  EXPECT_EQ(stats.schedule_divergences, 0u);
  EXPECT_GT(stats.prefetch.hit, 0u);
  EXPECT_GT(stats.links.at("dram-nvme").in.bytes, 0u);
  EXPECT_LE(stats.tiers.at("hbm").peak_bytes, options.hbm_bytes.count());
  EXPECT_LE(stats.tiers.at("dram").peak_bytes, options.dram_bytes.count());
  EXPECT_EQ(stats.pages_lost, 0u);
}

TEST_F(PagedMemoryTest, ForwardOpsSayWhatTheirTensorsTakeToBeMadeAgain) {
  const auto runtime = Runtime::Create(Options(16));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  ASSERT_TRUE(TrainIn(memory).ok());
  const absl::StatusOr<Schedule> schedule = (*runtime)->RecordedSchedule("train");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  int written = 0;
  for (const ScheduleOp& op : schedule->ops) {
    const bool forward = op.name.starts_with("l") && op.name.find(".forward") != std::string::npos;
    for (const ScheduleAccess& access : op.accesses) {
      const bool expected = forward && access.mode == AccessMode::kOverwrite;
      EXPECT_EQ(access.recompute_seconds.has_value(), expected) << op.name;
      if (expected) {
        EXPECT_GT(*access.recompute_seconds, 0) << op.name;
      }
      written += expected;
    }
  }
  EXPECT_GT(written, 0);
}

/// Losses of steps from where the trainer is.
std::vector<float> MakeSteps(Trainer& trainer, int steps, UpdateTime update) {
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) {
    const absl::StatusOr<StepResult> step = trainer.Step(update);
    EXPECT_TRUE(step.ok()) << step.status();
    if (step.ok()) losses.push_back(step->loss);
  }
  return losses;
}

TEST_F(PagedMemoryTest, MicroBatchesMatchRamBitForBit) {
  TrainConfig train = TinyTrain();
  train.batch = 2;
  train.micro_batches = 3;
  for (const double clip : {0.0, 0.5}) {
    train.clip_norm = clip;
    const Dataset data = TinyDataset(train);
    RamMemory ram;
    auto in_ram = Trainer::Create(DeepModel(), train, data, ram);
    ASSERT_TRUE(in_ram.ok()) << in_ram.status();
    const auto runtime = Runtime::Create(Options(12));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    PagedMemory memory(**runtime);
    auto paged = Trainer::Create(DeepModel(), train, data, memory);
    ASSERT_TRUE(paged.ok()) << paged.status();
    EXPECT_EQ(MakeSteps(**paged, 4, UpdateTime::kDeferred),
              MakeSteps(**in_ram, 4, UpdateTime::kNow));
    EXPECT_EQ(StateOf(**paged), StateOf(**in_ram));
  }
}

/// The matrices of layers that the recorded schedule of a first step updates.
std::set<std::string> UpdatedLayers(Runtime& runtime) {
  const auto schedule = runtime.RecordedSchedule("train.first");
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  std::set<std::string> layers;
  for (const ScheduleOp& op : schedule.ok() ? schedule->ops : std::vector<ScheduleOp>()) {
    if (op.lane != "optimizer") continue;
    layers.insert(op.name.substr(0, op.name.rfind('.')));
  }
  return layers;
}

TEST_F(PagedMemoryTest, WithoutClippingTheUpperHalfIsUpdatedWithinTheBackward) {
  for (const double clip : {0.0, 0.5}) {
    TrainConfig train = TinyTrain();
    train.clip_norm = clip;
    const Dataset data = TinyDataset(train);
    const auto runtime = Runtime::Create(Options(12));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    PagedMemory memory(**runtime);
    auto trainer = Trainer::Create(DeepModel(), train, data, memory);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    MakeSteps(**trainer, 2, UpdateTime::kDeferred);
    std::set<std::string> expected;
    for (int layer = 4; layer < 8 && clip == 0; ++layer) {
      for (const char* matrix : {"qkv", "out", "fc", "proj"}) {
        expected.insert("update.l" + std::to_string(layer) + "." + matrix + ".weight");
      }
    }
    EXPECT_EQ(UpdatedLayers(**runtime), expected);
  }
}

TensorId TensorOf(Runtime& runtime, const std::string& name) {
  for (TensorId id{0}; id.value < 1000; ++id.value) {
    const auto found = runtime.NameOfTensor(id);
    if (found.ok() && *found == name) return id;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST_F(PagedMemoryTest, AStepWaitsForTheUpdatesThatHaveBegunInItsBackward) {
  TrainConfig train = TinyTrain();
  train.clip_norm = 0;
  const Dataset data = TinyDataset(train);
  const auto runtime = Runtime::Create(Options(24));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  auto trainer = Trainer::Create(DeepModel(), train, data, memory);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  Op op = (*runtime)->BeginOp({.name = "holds"});
  // The update of layer 7 has to wait for it; the backward only reads.
  const sluice::Access access{
      .tensor = TensorOf(**runtime, "l7.out.weight"), .tier = kDram0, .contiguous = false};
  absl::StatusOr<Lease> lease = op.Acquire(access);
  ASSERT_TRUE(lease.ok()) << lease.status();
  std::atomic<bool> released = false;
  std::thread releases([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    released = true;
    lease->Release();
  });
  MakeSteps(**trainer, 1, UpdateTime::kDeferred);
  EXPECT_TRUE(released);
  releases.join();
}

TEST_F(PagedMemoryTest, ASavedRunGoesOnWithTheBitsOfOneThatNeverStopped) {
  const Dataset data = TinyDataset();
  RamMemory ram;
  auto whole = Trainer::Create(DeepModel(), TinyTrain(), data, ram);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::vector<float> losses = MakeSteps(**whole, 6, UpdateTime::kDeferred);
  EXPECT_EQ((*whole)->SaveState(directory_.path()).code(), absl::StatusCode::kUnimplemented);
  const TempDirectory saved;
  const auto run = [&](int from, int steps) {
    const auto runtime = Runtime::Create(Options(12));
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    PagedMemory memory(**runtime);
    auto part = Trainer::Create(DeepModel(), TinyTrain(), data, memory);
    ASSERT_TRUE(part.ok()) << part.status();
    if (from > 0) {
      const absl::Status loaded = (*part)->LoadState(saved.path());
      ASSERT_TRUE(loaded.ok()) << loaded;
    }
    EXPECT_EQ((*part)->step(), from);
    EXPECT_EQ(MakeSteps(**part, steps, UpdateTime::kDeferred),
              std::vector<float>(losses.begin() + from, losses.begin() + from + steps));
    const absl::Status written = (*part)->SaveState(saved.path());
    ASSERT_TRUE(written.ok()) << written;
    if (from + steps == 6) {
      EXPECT_EQ(StateOf(**part), StateOf(**whole));
    }
  };
  run(0, 3);
  run(3, 1);
  run(4, 2);
}

TEST_F(PagedMemoryTest, AfterALoadTheRatesAreThoseOfTheConfiguration) {
  const Dataset data = TinyDataset();
  const TempDirectory saved;
  const auto run = [&](double decay, bool loads) {
    TrainConfig train = TinyTrain();
    train.weight_decay = decay;
    const auto runtime = Runtime::Create(Options(12));
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    PagedMemory memory(**runtime);
    auto trainer = Trainer::Create(DeepModel(), train, data, memory);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    if (loads) {
      EXPECT_TRUE((*trainer)->LoadState(saved.path()).ok());
    }
    MakeSteps(**trainer, 1, UpdateTime::kNow);
    if (!loads) {
      EXPECT_TRUE((*trainer)->SaveState(saved.path()).ok());
    }
    return StateOf(**trainer);
  };
  run(0.1, false);
  const State same = run(0.1, true);
  EXPECT_EQ(run(0.1, true), same);
  EXPECT_NE(run(0.9, true), same);
}

TEST_F(PagedMemoryTest, StepsWithoutAnUpdateLeaveEverythingAsItIs) {
  TrainConfig train = TinyTrain();
  const Dataset data = TinyDataset(train);
  const auto runtime = Runtime::Create(Options(12));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  auto trainer = Trainer::Create(DeepModel(), train, data, memory);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  MakeSteps(**trainer, 2, UpdateTime::kDeferred);
  const State before = StateOf(**trainer);
  MakeSteps(**trainer, 1, UpdateTime::kDeferred);
  const absl::StatusOr<StepResult> step = (*trainer)->Step(UpdateTime::kNever);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->key, "train.none");
  const State updated = StateOf(**trainer);
  EXPECT_NE(before, updated);
  MakeSteps(**trainer, 2, UpdateTime::kNever);
  EXPECT_EQ(StateOf(**trainer), updated);
}

TEST_F(PagedMemoryTest, DiscardActsAfterItsOpAndBeforeTheNext) {
  absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Create(Options(16));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  const TensorSpec spec{.name = "t", .shape = {1024}};
  const absl::StatusOr<std::vector<TensorId>> ids = memory.CreateTensors({&spec, 1});
  ASSERT_TRUE(ids.ok()) << ids.status();
  const sluice::Access write{.tensor = ids->front(), .mode = AccessMode::kOverwrite};
  const sluice::Access read{.tensor = ids->front()};
  const auto fill = [](float value) {
    return [=](const OpBuffers& b) { std::fill_n(b.Floats(0), 1024, value); };
  };
  float seen_before = 0, seen_after = 0;
  ASSERT_TRUE(memory
                  .Run({.name = "first",
                        .accesses = {write},
                        .compute = fill(1),
                        .discards = {{ids->front(), kWholeTensor}}})
                  .ok());
  ASSERT_TRUE(memory.Run({.name = "second", .accesses = {write}, .compute = fill(2)}).ok());
  ASSERT_TRUE(memory
                  .Run({.name = "third",
                        .accesses = {read},
                        .compute = [&](const OpBuffers& b) { seen_before = b.Floats(0)[7]; },
                        .discards = {{ids->front(), kWholeTensor}}})
                  .ok());
  ASSERT_TRUE(memory
                  .Run({.name = "fourth",
                        .accesses = {read},
                        .compute = [&](const OpBuffers& b) { seen_after = b.Floats(0)[7]; }})
                  .ok());
  ASSERT_TRUE(memory.Flush().ok());
  EXPECT_EQ(seen_before, 2.0f);
  EXPECT_EQ(seen_after, 0.0f);  // discarded content reads as zeros
}

TEST_F(PagedMemoryTest, ObserverSeesOpsOneAfterAnother) {
  absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Create(Options(16));
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  PagedMemory memory(**runtime);
  const Dataset data = TinyDataset();
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(DeepModel(), TinyTrain(), data, memory);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::vector<OpTiming> seen;
  memory.SetObserver([&](const OpTiming& timing) { seen.push_back(timing); });
  ASSERT_TRUE((*trainer)->Step().ok());
  // The optimizer's ops are not the memory's.
  ASSERT_GT(seen.size(), 100u);
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_LE(seen[i - 1].end, seen[i].begin);
  EXPECT_EQ(seen.front().name, "embed.forward.g0");
  EXPECT_EQ(seen.back().name, "embed.backward.g1");
}

}  // namespace
}  // namespace sluice::gpt
