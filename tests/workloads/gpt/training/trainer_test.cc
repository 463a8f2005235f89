#include "workloads/gpt/training/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/workloads/gpt/gpt_fixture.h"
#include "workloads/gpt/memory/ram_memory.h"

namespace sluice::gpt {
namespace {

using ::testing::HasSubstr;

struct Training {
  std::vector<float> losses;
  float val_loss_first = 0;
  float val_loss = 0;
  State state;
};

Training TrainInRam(const TrainConfig& train,
                    int steps,
                    UpdateTime update = UpdateTime::kDeferred) {
  RamMemory memory;
  const Dataset data = TinyDataset(train);
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(TinyModel(), train, data, memory);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  Training run;
  run.val_loss_first = (*trainer)->Validate().value_or(-1);
  for (int i = 0; i < steps; ++i) {
    const absl::StatusOr<StepResult> step = (*trainer)->Step(update);
    EXPECT_TRUE(step.ok()) << step.status();
    run.losses.push_back(step->loss);
  }
  EXPECT_EQ((*trainer)->step(), steps);
  run.val_loss = (*trainer)->Validate().value_or(-1);
  run.state = StateOf(**trainer);
  return run;
}

TEST(Trainer, LearnsTheText) {
  const Training run = TrainInRam(TinyTrain(), 80);
  EXPECT_NEAR(run.losses.front(), std::log(64.0), 0.3);
  EXPECT_LT(run.losses.back(), 0.5 * run.losses.front());
  EXPECT_LT(run.val_loss, 0.6 * run.val_loss_first);
}

TEST(Trainer, TwoRunsAreBitIdenticalAndSeedsDiffer) {
  const Training a = TrainInRam(TinyTrain(), 5), b = TrainInRam(TinyTrain(), 5);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.val_loss, b.val_loss);
  EXPECT_EQ(a.state, b.state);
  TrainConfig other = TinyTrain();
  other.seed = 6;
  EXPECT_NE(a.losses, TrainInRam(other, 5).losses);
}

/// Notes the iteration keys and the ops in order.
class NamesMemory : public RamMemory {
 public:
  absl::Status BeginIteration(std::string_view key) override {
    keys.emplace_back(key);
    return RamMemory::BeginIteration(key);
  }
  absl::Status Run(OpSpec op) override {
    names.push_back(op.name);
    return RamMemory::Run(std::move(op));
  }
  std::vector<std::string> keys;
  std::vector<std::string> names;
};

TEST(Trainer, DeferredUpdatesGiveTheSameBits) {
  const Training now = TrainInRam(TinyTrain(), 7, UpdateTime::kNow);
  const Training deferred = TrainInRam(TinyTrain(), 7, UpdateTime::kDeferred);
  EXPECT_EQ(now.losses, deferred.losses);
  EXPECT_EQ(now.val_loss, deferred.val_loss);
  EXPECT_EQ(now.state, deferred.state);
}

TEST(Trainer, ReadingParametersCompletesTheUpdate) {
  const Dataset data = TinyDataset();
  std::vector<State> states;
  std::vector<float> val_losses;
  for (const UpdateTime update : {UpdateTime::kNow, UpdateTime::kDeferred}) {
    RamMemory memory;
    const auto trainer = Trainer::Create(TinyModel(), TinyTrain(), data, memory);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    for (int i = 0; i < 2; ++i) ASSERT_TRUE((*trainer)->Step(update).ok());
    states.push_back(StateOf(**trainer));
    ASSERT_TRUE((*trainer)->Step(update).ok());
    val_losses.push_back((*trainer)->Validate().value_or(-1));
  }
  EXPECT_EQ(states[0], states[1]);
  EXPECT_EQ(val_losses[0], val_losses[1]);
}

TEST(Trainer, DeferredUpdatesRunALayerAheadOfTheNextForward) {
  const Dataset data = TinyDataset();
  NamesMemory memory;
  const auto trainer = Trainer::Create(TinyModel(), TinyTrain(), data, memory);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  for (const UpdateTime update :
       {UpdateTime::kDeferred, UpdateTime::kDeferred, UpdateTime::kNow, UpdateTime::kNow}) {
    memory.names.clear();
    ASSERT_TRUE((*trainer)->Step(update).ok());
    if (memory.keys.back() != kTrainKeys[0]) continue;
    const auto at = [&](const std::string& name) {
      const auto found = std::find(memory.names.begin(), memory.names.end(), name);
      EXPECT_NE(found, memory.names.end()) << name;
      return found - memory.names.begin();
    };
    EXPECT_LT(at("update.tokens.0"), at("embed.forward.g0"));
    EXPECT_LT(at("update.vectors"), at("embed.forward.g0"));
    EXPECT_LT(at("update.l0.proj.weight.0"), at("l0.qkv.forward.g0"));
    EXPECT_GT(at("update.l1.qkv.weight.0"), at("embed.forward.g1"));
    EXPECT_LT(at("update.l1.proj.weight.0"), at("l1.qkv.forward.g0"));
    EXPECT_FALSE(memory.names.back().starts_with("update.")) << memory.names.back();
  }
  EXPECT_THAT(memory.keys,
              ::testing::ElementsAre("train.first", "train", "train.last", "train.alone"));
}

/// Fails one op, and none after it.
class FailingMemory : public RamMemory {
 public:
  absl::Status Run(OpSpec op) override {
    if (fails_at > 0 && --fails_at == 0) return absl::UnavailableError("the op failed");
    return RamMemory::Run(std::move(op));
  }
  int fails_at = 0;
};

TEST(Trainer, AfterAFailedOpEveryCallAnswersWithItsError) {
  const Dataset data = TinyDataset();
  for (const int fails_at : {1, 3, 9, 30}) {
    FailingMemory memory;
    const auto trainer = Trainer::Create(TinyModel(), TinyTrain(), data, memory);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    ASSERT_TRUE((*trainer)->Step(UpdateTime::kDeferred).ok());
    memory.fails_at = fails_at;
    const absl::Status failed = (*trainer)->Step(UpdateTime::kDeferred).status();
    EXPECT_EQ(failed.message(), "the op failed");
    EXPECT_EQ((*trainer)->Step().status(), failed);
    EXPECT_EQ((*trainer)->Validate().status(), failed);
    const auto ignore = [](const std::string&, std::uint64_t, std::span<const std::byte>) {
      ADD_FAILURE() << "half updated parameters are shown";
      return absl::OkStatus();
    };
    EXPECT_EQ((*trainer)->ForEachParameter(ignore), failed);
  }
}

TEST(Trainer, GroupsChangeTheOrderOfSumsOnly) {
  TrainConfig one_group = TinyTrain();
  one_group.group_sequences = one_group.batch;
  const Training a = TrainInRam(TinyTrain(), 1), b = TrainInRam(one_group, 1);
  EXPECT_NEAR(a.losses[0], b.losses[0], 1e-5);
  // The first moment after one step is the gradient.
  for (const auto& [name, values] : a.state) {
    if (!name.ends_with(".m")) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], b.state.at(name)[i], 1e-6) << name << i;
    }
  }
}

TEST(Trainer, MicroBatchesAddUpTheirGradients) {
  TrainConfig train = TinyTrain();
  train.learning_rate = 0;
  train.weight_decay = 0;
  train.clip_norm = 0;
  // Moments of two steps hold the gradients of both batches.
  const Training one = TrainInRam(train, 1), two = TrainInRam(train, 2);
  train.micro_batches = 2;
  const Training together = TrainInRam(train, 1);
  EXPECT_NEAR(together.losses[0], (two.losses[0] + two.losses[1]) / 2, 1e-5);
  const auto b1 = static_cast<float>(train.beta1);
  for (const auto& [name, values] : together.state) {
    if (!name.ends_with(".m")) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float first = one.state.at(name)[i];
      const float second = two.state.at(name)[i] - b1 * first;
      EXPECT_NEAR(values[i], (first + second) / 2, 1e-6) << name << i;
    }
  }
}

TEST(Trainer, StreamsParametersThenBothMoments) {
  RamMemory memory;
  const Dataset data = TinyDataset();
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(TinyModel(), TinyTrain(), data, memory);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::vector<std::string> names, expected;
  const auto note = [&](const std::string& name, std::uint64_t, std::span<const std::byte>) {
    if (names.empty() || names.back() != name) names.push_back(name);
    return absl::OkStatus();
  };
  ASSERT_TRUE((*trainer)->ForEachState(note).ok());
  for (const char* suffix : {"", ".m", ".v"}) {
    for (const TensorSpec& spec : (*trainer)->ParameterSpecs()) {
      expected.push_back(spec.name + suffix);
    }
  }
  EXPECT_EQ(names, expected);
}

TEST(Trainer, VisitorsErrorEndsTheStream) {
  RamMemory memory;
  const Dataset data = TinyDataset();
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(TinyModel(), TinyTrain(), data, memory);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  int calls = 0;
  const absl::Status status =
      (*trainer)->ForEachState([&](const std::string&, std::uint64_t, std::span<const std::byte>) {
        return ++calls == 3 ? absl::CancelledError("enough") : absl::OkStatus();
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(calls, 3);
}

TEST(Trainer, RefusesConfigsThatDoNotFit) {
  const Dataset data = TinyDataset();
  const auto refusal = [&](const ModelConfig& model, const TrainConfig& train) {
    RamMemory memory;
    const absl::Status status = Trainer::Create(model, train, data, memory).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  ModelConfig model = TinyModel();
  model.heads = 3;
  EXPECT_THAT(refusal(model, TinyTrain()), HasSubstr("model.heads"));
  TrainConfig train = TinyTrain();
  train.group_sequences = 3;
  EXPECT_THAT(refusal(TinyModel(), train), HasSubstr("train.group_sequences"));
  train = TinyTrain();
  train.micro_batches = 0;
  EXPECT_THAT(refusal(TinyModel(), train), HasSubstr("train.micro_batches"));
  train = TinyTrain();
  train.learning_rate = -1;
  EXPECT_THAT(refusal(TinyModel(), train), HasSubstr("train.learning_rate"));
}

/// Losses and states of a model whose products have several tiles.
std::pair<std::vector<float>, StateBytes> TrainWide(int compute_threads) {
  const ModelConfig model{.layers = 2, .heads = 2, .width = 200, .context = 80, .vocab = 64};
  TrainConfig train = TinyTrain();
  train.compute_threads = compute_threads;
  RamMemory memory;
  const Dataset data = Dataset::FromBytes(TinyText(), train, model).value();
  const auto trainer = Trainer::Create(model, train, data, memory).value();
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) losses.push_back(trainer->Step().value().loss);
  return {losses, StateBytesOf(*trainer)};
}

TEST(Trainer, HasTheSameBitsForAnyNumberOfComputeThreads) {
  const auto alone = TrainWide(1);
  for (const int threads : {2, 3, 5}) {
    const auto [losses, state] = TrainWide(threads);
    EXPECT_EQ(losses, alone.first) << threads << " threads";
    EXPECT_TRUE(state == alone.second) << threads << " threads";
  }
}

TEST(Trainer, CountsTheFlopsOfItsProducts) {
  RamMemory memory;
  const Dataset data = TinyDataset();
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(TinyModel(), TinyTrain(), data, memory);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  // Flops per token, forward and backward:
  // - 6 per weight of every matrix
  // - 12 * context * width per layer, for the scores and their use.
  const double d = 20, tokens = 4 * 9;
  const double weights = 2 * 12 * d * d + 64 * d;
  EXPECT_DOUBLE_EQ((*trainer)->FlopsPerStep(), tokens * (6 * weights + 2 * 12 * 9 * d));
}

}  // namespace
}  // namespace sluice::gpt
