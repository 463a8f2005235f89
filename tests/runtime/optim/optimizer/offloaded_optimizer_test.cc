// The optimizer gives the bits of one kernel call per tensor in plain memory. It does so however
// tensors are paged, shared, bound or split. Errors name the wrong argument.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "runtime/optim/step/update_batch.h"
#include "sluice/optimizer.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::kCaseStride;
using sluice::testing::RuntimeFixture;
using ::testing::ElementsAre;

// 32 pages of 1024 fp32 elements are in dram: the third parameter alone has 20 of each tensor.
const std::vector<std::vector<std::size_t>> kGroups = {{1, 255, 5000}, {20000}, {300, 1025}};

void ExpectSame(PagedModel& model) {
  const auto paged = model.Paged();
  const auto reference = model.Reference();
  ASSERT_EQ(paged.size(), reference.size());
  for (std::size_t i = 0; i < paged.size(); ++i)
    EXPECT_EQ(paged[i], reference[i]) << "tensor " << i;
}

class OffloadedOptimizerTest : public ::testing::Test {
 protected:
  void Train(const PagedModel::Options& options, int steps) {
    runtime_.Start();
    PagedModel model(runtime_, options);
    for (int step = 1; step <= steps; ++step) {
      model.SetGradients(100 + static_cast<std::uint64_t>(step));
      const auto done = model.Step();
      ASSERT_THAT(done, IsOk());
      EXPECT_EQ(done->step, step);
      model.ReferenceStep(step);
    }
    EXPECT_EQ(model.optimizer().step(), steps);
    ExpectSame(model);
  }

  RuntimeFixture runtime_;
};

TEST_F(OffloadedOptimizerTest, EveryOptimizerAndTypeGivesTheBitsOfMemory) {
  const std::vector<KernelSpec> specs = AllSpecs();
  for (std::size_t i = 0; i < specs.size(); i += kCaseStride) {
    SCOPED_TRACE(NameOf(specs[i]));
    Train({.spec = specs[i], .groups = {{300, 5000}, {3000}}}, 2);
    if (HasFatalFailure()) return;
  }
}

TEST_F(OffloadedOptimizerTest, FarMoreThanFitsIsPaged) {
  for (const StateType state : {StateType::kFp32, StateType::kBf16, StateType::k8Bit}) {
    SCOPED_TRACE(ToString(state));
    Train({.spec = {.state = state}, .groups = kGroups}, 4);
    EXPECT_GT(runtime_->GetStats().links["dram-nvme"].in.bytes, 0u);
  }
}

TEST_F(OffloadedOptimizerTest, SmallPartsShareOpsWhereThereIsRoom) {
  runtime_.options.dram_bytes = Bytes(512 * RuntimeFixture::kPage);
  runtime_.Start();
  constexpr std::size_t kVectors = 40;
  PagedModel model(runtime_, {.groups = {std::vector<std::size_t>(kVectors, 100), {40000, 3000}}});
  for (std::int64_t step = 1; step <= 3; ++step) {
    ASSERT_THAT(runtime_->BeginIteration("step"), IsOk());
    ASSERT_THAT(model.Step(), IsOk());
    ASSERT_THAT(runtime_->EndIteration(), IsOk());
    model.ReferenceStep(step);
    ASSERT_EQ(model.Paged(), model.Reference()) << "step " << step;
  }
  const Schedule schedule = runtime_->RecordedSchedule("step").value();
  EXPECT_EQ(schedule.ops.size(), kVectors / kBatchPartsMax + 6) << "43 parts of the others";
}

TEST_F(OffloadedOptimizerTest, TheTraceShowsWhatEachOpComputes) {
  runtime_.options.dram_bytes = Bytes(512 * RuntimeFixture::kPage);
  base::Mutex mutex;
  std::vector<std::string> names;
  runtime_.options.trace = [&](const TraceSpan& span) {
    const base::MutexLock lock(mutex);
    if (span.track == "mine" && span.begin <= span.end) names.push_back(span.name);
  };
  runtime_.Start();
  PagedModel model(runtime_,
                   {.groups = {{100, 200, 3}, {2000}},
                    .optimizer = {.clip_norm = 1, .order = SweepOrder::kForward, .lane = "mine"}});
  ASSERT_THAT(model.Step(), IsOk());
  EXPECT_THAT(names,
              ElementsAre("norm.p0: 100 elements",
                          "norm.p1: 200 elements",
                          "norm.p2: 3 elements",
                          "norm.p3: 2000 elements",
                          "update.p0.0: 303 elements in 3 parts",
                          "update.p3.0: 2000 elements in 2 parts"));
}

TEST_F(OffloadedOptimizerTest, AWaitEndsAtItsDeadlineAndTheStepGoesOn) {
  runtime_.Start();
  PagedModel model(runtime_, {.groups = {{2000}}});
  Op op = runtime_->BeginOp({.name = "holder"});
  auto lease = op.Acquire({.tensor = model.parameter(0), .tier = kDram0});
  ASSERT_THAT(lease, IsOk());
  ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(2); };
  EXPECT_THAT(model.optimizer().WaitFor(model.group(0), soon()),
              HasCode(absl::StatusCode::kDeadlineExceeded));
  StepHandle step = model.optimizer().Step().value();
  EXPECT_THAT(step.WaitFor(model.group(0), soon()), HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(step.Wait(soon()), HasCode(absl::StatusCode::kDeadlineExceeded));
  lease->Release();
  EXPECT_THAT(step.Wait(), IsOk());
  model.ReferenceStep(1);
  EXPECT_EQ(model.Paged(), model.Reference());
}

TEST_F(OffloadedOptimizerTest, ThreadsDepthAndOrderChangeNothing) {
  for (const int threads : {1, 3}) {
    for (const SweepOrder order : {SweepOrder::kAlternate, SweepOrder::kForward}) {
      for (const std::uint32_t depth : {1u, 3u}) {
        Train({.spec = {.state = StateType::k8Bit, .gradient = GradientType::kBf16},
               .groups = kGroups,
               .optimizer = {.order = order, .threads = threads, .depth = depth}},
              3);
      }
    }
  }
}

TEST_F(OffloadedOptimizerTest, GradientsAndCopiesMayBeTensors) {
  for (const Storage gradients : {Storage::kMemory, Storage::kTensor}) {
    for (const Storage copies : {Storage::kMemory, Storage::kTensor}) {
      Train({.spec = {.gradient = GradientType::kFp16, .copy = CopyType::kBf16},
             .groups = kGroups,
             .gradients = gradients,
             .copies = copies},
            2);
    }
  }
}

// Blocks of 256 elements are cut where a tensor does not start with its page.
TEST_F(OffloadedOptimizerTest, EightBitBlocksMayBeCutBetweenPages) {
  runtime_.Start();
  const std::vector<TensorSpec> specs = {{.name = "before", .shape = {80}},
                                         {.name = "p", .shape = {4000}}};
  const auto tensors = runtime_->CreateTensors(specs).value();
  const KernelSpec spec{.state = StateType::k8Bit};
  TensorRun run(spec, 4000);
  for (std::size_t i = 0; i < 4000; ++i) {
    run.SetParameter(i, static_cast<float>(i) / 4000);
    run.SetGradient(i, 0.01f * static_cast<float>(i % 97) - 0.4f);
  }
  const auto parameter_bytes = std::as_bytes(std::span(run.parameters));
  runtime_.Write(tensors[1], parameter_bytes.first(4096 - 320));
  runtime_.Write(tensors[1], parameter_bytes.subspan(4096 - 320), 4096 - 320);
  const auto optimizer = OffloadedOptimizer::Create(*runtime_, {.state = StateType::k8Bit}).value();
  const GroupId group = optimizer->AddGroup({.name = "g", .parameters = {tensors[1]}}).value();
  const auto gradients = std::as_bytes(std::span(run.gradients));
  ASSERT_THAT(optimizer->BindGradient(tensors[1], {.bytes = gradients}), IsOk());
  ASSERT_THAT(optimizer->GradientReady(group), IsOk());
  ASSERT_THAT(optimizer->Step().value().Wait(), IsOk());
  const KernelScalars scalars{.learning_rate = 1e-3,
                              .beta1 = 0.9f,
                              .beta2 = 0.999f,
                              .eps = 1e-8,
                              .moment1_scale = 1 / (1 - double{0.9f}),
                              .moment2_scale = 1 / (1 - double{0.999f})};
  FindKernel(spec, SimdTarget::kScalar).value()(run.Args(scalars, {.step = 1}, 0, 4000));
  const auto* expected = reinterpret_cast<const std::byte*>(run.parameters.data());
  std::vector<std::byte> got;
  got.resize(16000);
  ASSERT_THAT(runtime_->Read(tensors[1], got), IsOk());
  EXPECT_EQ(got, std::vector<std::byte>(expected, expected + 16000));
}

TEST_F(OffloadedOptimizerTest, GradientsAreClippedToTheGlobalNorm) {
  for (const Storage place : {Storage::kMemory, Storage::kTensor}) {
    runtime_.Start();
    PagedModel model(runtime_,
                     {.spec = {.gradient = GradientType::kBf16},
                      .groups = kGroups,
                      .optimizer = {.clip_norm = 1, .threads = 2},
                      .gradients = place});
    for (int step = 1; step <= 3; ++step) {
      // The second is below the norm.
      model.SetGradients(static_cast<std::uint64_t>(step), step == 2 ? 1e-4f : 0.5f);
      const double norm = model.GradientNorm() / 4;
      const auto done = model.Step(4);
      ASSERT_THAT(done, IsOk());
      ASSERT_TRUE(done->gradient_norm);
      EXPECT_EQ(*done->gradient_norm, norm);
      const double scale = norm > 1 ? 1 / norm / 4 : 1.0 / 4;
      EXPECT_EQ(norm > 1, step != 2);
      model.ReferenceStep(step, scale);
    }
    ExpectSame(model);
  }
}

TEST_F(OffloadedOptimizerTest, TheNormMayBeGiven) {
  runtime_.Start();
  PagedModel model(runtime_,
                   {.groups = kGroups,
                    .optimizer = {.clip_norm = 1, .skip_not_finite = true, .norm_given = true}});
  model.SetGradients(1, 0.5f);
  const double norm = 2 * model.GradientNorm();  // the norm of two ranks, say
  const auto done = model.Step(StepOptions{.loss_scale = 4, .gradient_norm = norm});
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->gradient_norm, norm / 4);
  model.ReferenceStep(1, 1 / (norm / 4) / 4);
  ExpectSame(model);
  const auto skipped = model.Step(StepOptions{.gradient_norm = std::nan("")});
  ASSERT_THAT(skipped, IsOk());
  EXPECT_TRUE(skipped->skipped);
  ExpectSame(model);
}

TEST_F(OffloadedOptimizerTest, AGradientIsDeadOnceItsParameterIsUpdated) {
  runtime_.Start();
  PagedModel model(runtime_,
                   {.groups = {{50000}, {50000}}, .gradients = Storage::kTensor, .discard = true});
  model.SetGradients(1);
  const std::uint64_t before = runtime_->GetStats().live_bytes;
  ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
  // The second group's gradients are not complete: only the first can be used up.
  const std::uint64_t states = 2 * 50000 * sizeof(float);
  const std::uint64_t gradient = 50000 * sizeof(float);
  while (runtime_->GetStats().live_bytes > before + states - gradient + 4096) {
    std::this_thread::yield();
  }
  ASSERT_THAT(model.optimizer().GradientReady(model.group(1)), IsOk());
  ASSERT_THAT(model.optimizer().Step().value().Wait(), IsOk());
  model.ReferenceStep(1);
  ExpectSame(model);
}

TEST_F(OffloadedOptimizerTest, AStepWithAnInfiniteGradientChangesNothing) {
  runtime_.Start();
  PagedModel model(runtime_,
                   {.spec = {.gradient = GradientType::kFp16},
                    .groups = kGroups,
                    .optimizer = {.skip_not_finite = true}});
  ASSERT_THAT(model.Step(2), IsOk());
  model.ReferenceStep(1, 0.5);
  model.run(3).SetGradient(19999, std::numeric_limits<float>::infinity());
  model.PublishGradients();
  const auto skipped = model.Step(2);
  ASSERT_THAT(skipped, IsOk());
  EXPECT_TRUE(skipped->skipped);
  EXPECT_EQ(model.optimizer().step(), 1);
  ExpectSame(model);
  model.SetGradients(7);
  const auto done = model.Step(2);
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->step, 2);
  model.ReferenceStep(2, 0.5);
  ExpectSame(model);
}

TEST_F(OffloadedOptimizerTest, GradientsOfSeveralMicroBatchesAddUp) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(ToString(type));
    runtime_.Start();
    // Small numbers of few bits, so that every sum is exact in bf16 too.
    PagedModel model(runtime_,
                     {.spec = {.gradient = GradientType::kBf16},
                      .groups = {{300, 5000}, {1025}},
                      .optimizer = {.accumulate = type}});
    for (int step = 1; step <= 2; ++step) {
      for (int batch = 0; batch < 3; ++batch) {
        for (std::size_t p = 0; p < model.parameters(); ++p) {
          for (std::size_t i = 0; i < model.run(p).count(); ++i) {
            model.run(p).SetGradient(i, static_cast<float>(i % 7 + static_cast<unsigned>(batch)));
          }
        }
        model.PublishGradients();
        for (std::size_t g = 0; batch < 2 && g < model.groups(); ++g) {
          ASSERT_THAT(model.optimizer().AddGradient(model.group(g)), IsOk());
        }
      }
      ASSERT_THAT(model.Step(), IsOk());
      for (std::size_t p = 0; p < model.parameters(); ++p) {
        for (std::size_t i = 0; i < model.run(p).count(); ++i) {
          model.run(p).SetGradient(i, static_cast<float>(3 * (i % 7) + 3));
        }
      }
      model.ReferenceStep(step);
    }
    ExpectSame(model);
  }
}

TEST_F(OffloadedOptimizerTest, AGroupMayBeUsedBeforeTheOthersAreUpdated) {
  runtime_.Start();
  PagedModel model(runtime_, {.groups = kGroups, .optimizer = {.order = SweepOrder::kForward}});
  for (std::size_t g = 0; g < model.groups(); ++g) {
    ASSERT_THAT(model.optimizer().GradientReady(model.group(g)), IsOk());
  }
  StepHandle step = model.optimizer().Step().value();
  for (std::size_t g = 0; g < model.groups(); ++g) {
    ASSERT_THAT(step.WaitFor(model.group(g)), IsOk());
  }
  EXPECT_THAT(step.WaitFor(GroupId{9}), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(step.Wait(), IsOk());
  EXPECT_TRUE(step.Ready());
  model.ReferenceStep(1);
  ExpectSame(model);
}

TEST_F(OffloadedOptimizerTest, AGroupIsUpdatedWhileOthersHaveNoGradientsYet) {
  runtime_.Start();
  PagedModel model(runtime_, {.groups = kGroups});
  OffloadedOptimizer& optimizer = model.optimizer();
  const auto step_of = [&](std::size_t i) { return optimizer.State(model.parameter(i))->step; };
  EXPECT_THAT(optimizer.WaitFor(model.group(1)), IsOk());
  ASSERT_THAT(optimizer.GradientReady(model.group(1)), IsOk());
  ASSERT_THAT(optimizer.WaitFor(model.group(1)), IsOk());
  EXPECT_EQ(step_of(3), 1);
  EXPECT_THAT(optimizer.WaitFor(model.group(0)), IsOk());
  EXPECT_EQ(step_of(0), 0);
  for (const std::size_t g : {0u, 2u}) {
    ASSERT_THAT(optimizer.GradientReady(model.group(g)), IsOk());
  }
  ASSERT_THAT(optimizer.Step().value().Wait(), IsOk());
  EXPECT_THAT(optimizer.WaitFor(model.group(2)), IsOk());
  EXPECT_EQ(step_of(0), 1);
  EXPECT_THAT(optimizer.WaitFor(GroupId{9}), HasCode(absl::StatusCode::kInvalidArgument));
  model.ReferenceStep(1);
  ExpectSame(model);
}

TEST_F(OffloadedOptimizerTest, AnUpdateThatStartsAtStepIsNotWaitedForBefore) {
  runtime_.Start();
  PagedModel model(runtime_, {.groups = {{5000}}, .optimizer = {.clip_norm = 1}});
  OffloadedOptimizer& optimizer = model.optimizer();
  for (int step = 1; step <= 20; ++step) {
    ASSERT_THAT(optimizer.GradientReady(model.group(0)), IsOk());
    EXPECT_THAT(optimizer.WaitFor(model.group(0)),
                IsStatus(absl::StatusCode::kFailedPrecondition, "starts at Step"));
    ASSERT_THAT(optimizer.Step(), IsOk());
    // Whether it is over or not.
    ASSERT_THAT(optimizer.WaitFor(model.group(0)), IsOk());
    while (optimizer.step() < step) std::this_thread::yield();
  }
}

/// A rank that has no element of a parameter does not add it.
TEST_F(OffloadedOptimizerTest, RoundingsDependOnTheNumberOfAParameter) {
  runtime_.Start();
  const auto updated = [&](bool beside_another, std::optional<std::uint64_t> number) {
    const auto optimizer = OffloadedOptimizer::Create(*runtime_, {}).value();
    const std::vector<float> gradient(1000, 0.3f);
    std::vector<GroupId> groups;
    const auto add = [&](std::optional<std::uint64_t> first_number) {
      const TensorSpec spec{.name = "p", .shape = {1000}, .dtype = DType::kBF16};
      const TensorId parameter = runtime_->CreateTensor(spec).value();
      const std::string name = std::to_string(parameter.value);
      const GroupId group =
          optimizer
              ->AddGroup({.name = name, .parameters = {parameter}, .first_number = first_number})
              .value();
      const auto bytes = std::as_bytes(std::span(gradient));
      EXPECT_THAT(optimizer->BindGradient(parameter, {.bytes = bytes}), IsOk());
      groups.push_back(group);
      return parameter;
    };
    if (beside_another) add(std::nullopt);
    const TensorId parameter = add(number);
    for (const GroupId group : groups) EXPECT_THAT(optimizer->GradientReady(group), IsOk());
    EXPECT_THAT(optimizer->Step()->Wait(), IsOk());
    return runtime_.Read(parameter);
  };
  const std::vector<std::byte> second = updated(true, std::nullopt);
  EXPECT_TRUE(updated(false, 1) == second);
  EXPECT_TRUE(updated(true, 1) == second);
  EXPECT_FALSE(updated(false, std::nullopt) == second);
}

TEST_F(OffloadedOptimizerTest, RatesMayChangeBetweenSteps) {
  runtime_.Start();
  PagedModel model(runtime_, {.groups = {{5000}}});
  GroupRates rates = model.rates();
  rates.learning_rate = 0;
  rates.weight_decay = 0;
  ASSERT_THAT(model.optimizer().SetRates(model.group(0), rates), IsOk());
  EXPECT_EQ(model.optimizer().Rates(model.group(0))->learning_rate, 0);
  const auto before = runtime_.Read(model.parameter(0));
  ASSERT_THAT(model.Step(), IsOk());
  EXPECT_EQ(runtime_.Read(model.parameter(0)), before);
  ASSERT_THAT(model.optimizer().SetRates(model.group(0), model.rates()), IsOk());
  ASSERT_THAT(model.Step(), IsOk());
  EXPECT_NE(runtime_.Read(model.parameter(0)), before);
}

TEST_F(OffloadedOptimizerTest, DestructionInTheMiddleOfAStepEndsIt) {
  runtime_.Start();
  // Some rounds may end before the thread has heard of the step.
  for (int round = 0; round < 50; ++round) {
    StepHandle step;
    {
      PagedModel model(runtime_, {.groups = {{3000}, {300}}, .optimizer = {.clip_norm = 1}});
      for (std::size_t g = 0; g < model.groups(); ++g) {
        ASSERT_THAT(model.optimizer().GradientReady(model.group(g)), IsOk());
      }
      step = model.optimizer().Step().value();
    }
    const auto result = step.Wait();
    if (!result.ok()) {
      EXPECT_THAT(result, HasCode(absl::StatusCode::kCancelled));
    }
  }
}

}  // namespace
}  // namespace sluice::optim
