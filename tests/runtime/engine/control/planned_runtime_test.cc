#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr std::size_t kPlannedLayers = 24;
constexpr std::uint64_t kPlannedLayerPages = 4;

/// A Runtime that plans by itself, and a loop over layers that hbm and dram do not hold.
class PlannedRuntimeTest : public ::testing::Test {
 protected:
  void Start(std::string_view policy = "planned") {
    runtime_.options.policy = policy;
    runtime_.Start();
    for (std::size_t i = 0; i < kPlannedLayers; ++i) {
      layers_.push_back(runtime_.Make("layer" + std::to_string(i), kPlannedLayerPages * kPage));
      runtime_.Write(layers_[i], Pattern(i, kPlannedLayerPages * kPage));
      versions_.push_back(i);
    }
  }

  /// Compares the layer's bytes, and writes new ones when it may.
  void RunOp(std::size_t layer, AccessMode mode) {
    const Access access{.tensor = layers_[layer], .mode = mode, .tier = kHbm0};
    Op op = runtime_->BeginOp({.name = "op" + std::to_string(layer)});
    const auto lease = op.Acquire(access);
    ASSERT_THAT(lease, IsOk());
    const auto bytes = lease->Contiguous();
    const auto expected = Pattern(versions_[layer], kPlannedLayerPages * kPage);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin())) << "layer " << layer;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (mode == AccessMode::kRead) return;
    versions_[layer] += 100;
    const auto fresh = Pattern(versions_[layer], kPlannedLayerPages * kPage);
    std::copy(fresh.begin(), fresh.end(), bytes.begin());
  }

  void TrainStep(std::string_view key = "train", std::size_t stride = 1) {
    ASSERT_THAT(runtime_->BeginIteration(key), IsOk());
    for (std::size_t i = 0; i < kPlannedLayers; ++i)
      RunOp(i * stride % kPlannedLayers, AccessMode::kRead);
    for (std::size_t i = kPlannedLayers; i-- > 0;)
      RunOp(i * stride % kPlannedLayers, AccessMode::kReadWrite);
    ASSERT_THAT(runtime_->EndIteration(), IsOk());
  }

  std::uint64_t PlansMade() { return runtime_->GetStats().plans.made; }
  void WaitForPlans(std::uint64_t count) {
    while (PlansMade() < count) std::this_thread::yield();
  }

  RuntimeFixture runtime_;
  std::vector<TensorId> layers_;
  std::vector<std::size_t> versions_;
};

TEST_F(PlannedRuntimeTest, IsTheDefault) { EXPECT_EQ(RuntimeOptions().policy, "planned"); }

TEST_F(PlannedRuntimeTest, ARepeatingIterationIsPlannedAndFollowed) {
  runtime_.options.prefetch_ops = 0;  // nothing but the plan fetches ahead
  Start();
  EXPECT_EQ(PlansMade(), 0u);
  TrainStep();
  WaitForPlans(1);
  EXPECT_EQ(runtime_->GetStats().prefetch.issued, 0u);
  for (int step = 0; step < 4; ++step) TrainStep();
  const Stats stats = runtime_->GetStats();
  EXPECT_GT(stats.prefetch.issued, kPlannedLayers * kPlannedLayerPages);
  EXPECT_GT(stats.plans.seconds, 0);
  EXPECT_EQ(stats.schedule_divergences, 0u);
}

TEST_F(PlannedRuntimeTest, OtherPoliciesMakeNoPlans) {
  Start("min");
  for (int step = 0; step < 3; ++step) TrainStep();
  EXPECT_EQ(PlansMade(), 0u);
}

TEST_F(PlannedRuntimeTest, EachKeyHasItsPlan) {
  Start();
  TrainStep("a");
  WaitForPlans(1);
  TrainStep("b", 5);
  WaitForPlans(2);
  for (int step = 0; step < 3; ++step) {
    TrainStep("a");
    TrainStep("b", 5);
  }
  EXPECT_EQ(runtime_->GetStats().schedule_divergences, 0u);
}

TEST_F(PlannedRuntimeTest, ADivergenceIsCountedAndTheNewOrderIsPlanned) {
  Start();
  for (int step = 0; step < 3; ++step) TrainStep();
  const std::uint64_t made = PlansMade();
  TrainStep("train", 7);
  EXPECT_EQ(runtime_->GetStats().schedule_divergences, 1u);
  while (PlansMade() == made) TrainStep("train", 7);
  for (int step = 0; step < 3; ++step) TrainStep("train", 7);
  EXPECT_EQ(runtime_->GetStats().schedule_divergences, 1u);
}

TEST_F(PlannedRuntimeTest, ASmallerBudgetIsPlannedFor) {
  Start();
  for (int step = 0; step < 3; ++step) TrainStep();
  const std::uint64_t made = PlansMade();
  ASSERT_THAT(runtime_->SetBudget(kHbm0, Bytes(10 * kPage)), IsOk());
  while (PlansMade() == made) TrainStep();
  TrainStep();
}

TEST_F(PlannedRuntimeTest, MayBeDestroyedWhileItPlans) {
  for (int i = 0; i < 5; ++i) {
    Start();
    TrainStep();
    runtime_.Stop();
    layers_.clear();
    versions_.clear();
  }
}

}  // namespace
}  // namespace sluice
