// The optimizer gives the bits of one kernel call per tensor in plain memory, whatever is paged,
// shared, bound or split how; and says what is wrong with what it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "runtime/optim/update_batch.h"
#include "sluice/optimizer.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
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
  for (const KernelSpec& spec : AllSpecs()) {
    SCOPED_TRACE(NameOf(spec));
    Train({.spec = spec, .groups = {{300, 5000}, {3000}}}, 2);
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
  for (const Place gradients : {Place::kMemory, Place::kTensor}) {
    for (const Place copies : {Place::kMemory, Place::kTensor}) {
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
  for (std::uint64_t at = 0; at < 16000; at += 2000) {
    Op op = runtime_->BeginOp({.name = "read"});
    const Access access{.tensor = tensors[1], .range = {at, 2000}, .tier = kDram0};
    const auto leases = op.AcquireAll({&access, 1}).Take().value();
    const auto bytes = leases[0].Contiguous();
    got.insert(got.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(got, std::vector<std::byte>(expected, expected + 16000));
}

TEST_F(OffloadedOptimizerTest, GradientsAreClippedToTheGlobalNorm) {
  for (const Place place : {Place::kMemory, Place::kTensor}) {
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
  const double norm = 2 * model.GradientNorm();  // of two ranks, say
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
                   {.groups = {{50000}, {50000}}, .gradients = Place::kTensor, .discard = true});
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

TEST_F(OffloadedOptimizerTest, WhatStartsAtStepIsNotWaitedForBefore) {
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
  // Sometimes before the thread has heard of the step.
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

class OptimizerMisuseTest : public OffloadedOptimizerTest {
 protected:
  OptimizerMisuseTest() {
    runtime_.Start();
    tensor_ = runtime_->CreateTensor({.name = "weights", .shape = {100}}).value();
    optimizer_ = OffloadedOptimizer::Create(*runtime_, {}).value();
  }
  GroupId Add() { return optimizer_->AddGroup({.name = "all", .parameters = {tensor_}}).value(); }
  static constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  static constexpr auto kNotNow = absl::StatusCode::kFailedPrecondition;

  TensorId tensor_;
  std::unique_ptr<OffloadedOptimizer> optimizer_;
  std::vector<std::byte> gradient_ = std::vector<std::byte>(400);
};

TEST_F(OptimizerMisuseTest, OptionsAreChecked) {
  const auto create = [&](const OptimizerOptions& options) {
    return OffloadedOptimizer::Create(*runtime_, options).status();
  };
  EXPECT_THAT(create({.clip_norm = -1}), IsStatus(kInvalid, "clip_norm is -1"));
  EXPECT_THAT(create({.threads = 0}), IsStatus(kInvalid, "threads is 0"));
  EXPECT_THAT(create({.norm_given = true}), IsStatus(kInvalid, "norm_given needs clip_norm"));
  EXPECT_THAT(create({.accumulate = DType::kF16}), IsStatus(kInvalid, "accumulate is"));
}

TEST_F(OptimizerMisuseTest, GroupsAreChecked) {
  const auto add = [&](std::vector<TensorId> parameters, double rate = 1e-3) {
    return optimizer_
        ->AddGroup({.name = "all", .parameters = parameters, .rates = {.learning_rate = rate}})
        .status();
  };
  EXPECT_THAT(add({}), IsStatus(kInvalid, "no parameters"));
  EXPECT_THAT(add({tensor_}, std::nan("")), IsStatus(kInvalid, "learning_rate is nan"));
  EXPECT_THAT(add({tensor_, tensor_}), IsStatus(kInvalid, "'weights' has a group already"));
  EXPECT_THAT(add({TensorId{999}}), HasCode(absl::StatusCode::kNotFound));
  const TensorId bytes = runtime_.Make("bytes", 10);
  EXPECT_THAT(add({bytes}), IsStatus(kInvalid, "'bytes' is u8"));
  ASSERT_THAT(add({tensor_}), IsOk());
  EXPECT_THAT(add({tensor_}), IsStatus(kInvalid, "there is a group 'all' already"));
}

TEST_F(OptimizerMisuseTest, BindingsAreChecked) {
  EXPECT_THAT(optimizer_->BindGradient(tensor_, {.bytes = gradient_}), HasCode(kInvalid));
  Add();
  const auto bind = [&](const GradientBinding& gradient) {
    return optimizer_->BindGradient(tensor_, gradient);
  };
  EXPECT_THAT(bind({.bytes = std::span(gradient_).first(396)}),
              IsStatus(kInvalid, "'weights': a gradient of 396 bytes"));
  EXPECT_THAT(bind({.type = DType::kI8, .bytes = gradient_}), IsStatus(kInvalid, "not i8"));
  const TensorId other = runtime_->CreateTensor({.name = "other", .shape = {99}}).value();
  EXPECT_THAT(bind({.tensor = other}), IsStatus(kInvalid, "'other' has 99 elements"));
  EXPECT_THAT(bind({.bytes = gradient_, .discard = true}), IsStatus(kInvalid, "only a tensor"));
  EXPECT_THAT(optimizer_->BindCopy(tensor_, {.type = DType::kF32, .bytes = gradient_}),
              IsStatus(kInvalid, "copies are bf16 or f16"));
}

/// An update would overwrite one with the other, or discard it.
TEST_F(OptimizerMisuseTest, WhatTheOptimizerHasAlreadyIsBoundToNothingElse) {
  Add();
  const auto make = [&](const char* name, DType type) {
    return runtime_->CreateTensor({.name = name, .shape = {100}, .dtype = type}).value();
  };
  const auto add = [&](const char* group, TensorId tensor) {
    return optimizer_->AddGroup({.name = group, .parameters = {tensor}}).status();
  };
  const TensorId second = make("second", DType::kF32);
  ASSERT_THAT(add("more", second), IsOk());
  const auto gradient = [&](TensorId tensor) {
    return optimizer_->BindGradient(tensor_, {.tensor = tensor, .discard = true});
  };
  EXPECT_THAT(gradient(tensor_), IsStatus(kInvalid, "'weights' is a parameter of this"));
  EXPECT_THAT(gradient(second), IsStatus(kInvalid, "'second' is a parameter of this"));
  const TensorId state{second.value + 1};  // the next that was made
  ASSERT_EQ(runtime_->NameOfTensor(state).value(), "second.m");
  EXPECT_THAT(gradient(state), IsStatus(kInvalid, "'second.m' is a state or sum of 'second'"));
  EXPECT_THAT(add("states", state), IsStatus(kInvalid, "'second.m' is a state or sum of 'second'"));

  const auto copy = [&](TensorId of, TensorId tensor) {
    return optimizer_->BindCopy(of, {.tensor = tensor});
  };
  const TensorId half = make("half", DType::kBF16);
  ASSERT_THAT(copy(tensor_, half), IsOk());
  EXPECT_THAT(copy(tensor_, half), IsOk());
  EXPECT_THAT(copy(second, half), IsStatus(kInvalid, "'half' is the copy of 'weights'"));
  EXPECT_THAT(optimizer_->BindGradient(second, {.type = DType::kBF16, .tensor = half}),
              IsStatus(kInvalid, "'half' is the copy of 'weights'"));
  EXPECT_THAT(add("copies", half), IsStatus(kInvalid, "'half' is the copy of 'weights'"));

  const TensorId shared = make("shared", DType::kBF16);
  for (const TensorId of : {tensor_, second, second}) {
    EXPECT_THAT(optimizer_->BindGradient(of, {.type = DType::kBF16, .tensor = shared}), IsOk());
  }
  EXPECT_THAT(copy(second, shared), IsStatus(kInvalid, "'shared' is the gradient of 'weights'"));
}

TEST_F(OptimizerMisuseTest, TheOrderOfCallsIsChecked) {
  EXPECT_THAT(optimizer_->Step(), IsStatus(kNotNow, "no group"));
  const GroupId group = Add();
  EXPECT_THAT(optimizer_->GradientReady(group), IsStatus(kNotNow, "'weights' has no gradient"));
  ASSERT_THAT(optimizer_->BindGradient(tensor_, {.bytes = gradient_}), IsOk());
  EXPECT_THAT(optimizer_->Step(), IsStatus(kNotNow, "group 'all' are not complete"));
  EXPECT_THAT(optimizer_->AddGradient(group), IsStatus(kNotNow, "OptimizerOptions::accumulate"));
  ASSERT_THAT(optimizer_->GradientReady(group), IsOk());
  EXPECT_THAT(optimizer_->SetRates(group, {}), IsStatus(kNotNow, "group 'all' is under way"));
  EXPECT_THAT(optimizer_->Save("/tmp"), IsStatus(kNotNow, "under way"));
  EXPECT_THAT(optimizer_->Step({.loss_scale = 0}), IsStatus(kInvalid, "loss_scale is 0"));
  EXPECT_THAT(optimizer_->Step({.loss_scale = 2}), IsStatus(kInvalid, "needs skip_not_finite"));
  EXPECT_THAT(optimizer_->Step({.gradient_norm = 1}), IsStatus(kInvalid, "norm_given is not set"));
  ASSERT_THAT(optimizer_->Step().value().Wait(), IsOk());
  EXPECT_THAT(optimizer_->Step(), IsStatus(kNotNow, "not complete"));
  EXPECT_THAT(optimizer_->State(TensorId{999}), HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(optimizer_->GradientReady(GroupId{3}), HasCode(kInvalid));
}

}  // namespace
}  // namespace sluice::optim
