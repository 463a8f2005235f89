// Parameters in the caller's memory: the bits, failures and saves of parameters that are tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sluice/optimizer.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;
using sluice::testing::StoreFaults;
using sluice::testing::TempDirectory;

constexpr auto kInvalidParameter = absl::StatusCode::kInvalidArgument;

/// Specs of parameters in memory: all that there are for one type of gradients. With a copy, a
/// master's.
std::vector<KernelSpec> Specs() {
  std::vector<KernelSpec> specs;
  for (const KernelSpec& spec : AllSpecs()) {
    if (spec.gradient == GradientType::kBf16) specs.push_back(spec);
  }
  return specs;
}

Storage StorageOf(const KernelSpec& spec) {
  return spec.copy == CopyType::kNone ? Storage::kMemory : Storage::kMaster;
}

class BoundParameterTest : public ::testing::Test {
 protected:
  BoundParameterTest() {
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
  }
  StoreFaults faults_;
  RuntimeFixture runtime_;
};

TEST_F(BoundParameterTest, EveryKindAndTypeHasTheBitsOfPlainMemory) {
  for (const KernelSpec& spec : Specs()) {
    SCOPED_TRACE(NameOf(spec));
    PagedModel model(runtime_,
                     {.spec = spec, .groups = {{5000, 10}, {700}}, .parameters = StorageOf(spec)});
    for (int step = 1; step <= 3; ++step) {
      model.SetGradients(static_cast<std::uint64_t>(step));
      ASSERT_THAT(model.Step(), IsOk());
      model.ReferenceStep(step);
    }
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

TEST_F(BoundParameterTest, ACopyOfAParameterInMemoryIsWritten) {
  const KernelSpec spec{.copy = CopyType::kFp16};
  for (const Storage copies : {Storage::kMemory, Storage::kTensor}) {
    PagedModel model(
        runtime_,
        {.spec = spec, .groups = {{5000}}, .parameters = Storage::kMemory, .copies = copies});
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(1);
    EXPECT_EQ(model.Paged(), model.Reference());
    model.SpoilCopies();
    ASSERT_THAT(model.optimizer().RefreshCopies(model.group(0)), IsOk());
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

TEST_F(BoundParameterTest, AStepThatFailsInPartIsCompletedByTheNext) {
  for (const Storage storage : {Storage::kMemory, Storage::kMaster}) {
    const CopyType copy = storage == Storage::kMaster ? CopyType::kBf16 : CopyType::kNone;
    PagedModel model(runtime_,
                     {.spec = {.state = StateType::kBf16, .copy = copy},
                      .groups = {{60000}, {9000, 100}},
                      .optimizer = {.clip_norm = 1, .depth = 2},
                      .parameters = storage});
    ASSERT_THAT(model.Step(), IsOk());
    const double norm = model.GradientNorm();
    model.ReferenceStep(1, 1 / norm);
    faults_.FailReads(absl::UnavailableError("EAGAIN"));
    EXPECT_THAT(model.Step(), IsStatus(absl::StatusCode::kUnavailable, "step 2: 'p"));
    faults_.FailReads(absl::OkStatus());
    std::size_t missing = 0;
    for (std::size_t i = 0; i < model.parameters(); ++i) {
      missing += model.optimizer().State(model.parameter(i))->missing.size();
    }
    EXPECT_GT(missing, 0u);
    EXPECT_THAT(model.optimizer().Step()->Wait(), IsOk());
    model.ReferenceStep(2, 1 / norm);
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

TEST_F(BoundParameterTest, GroupsThatSitOutKeepEverything) {
  PagedModel model(runtime_, {.groups = {{5000}, {3000}}, .parameters = Storage::kMemory});
  ASSERT_THAT(model.Step(), IsOk());
  model.ReferenceStep(1);
  ASSERT_THAT(model.StepOf({1}), IsOk());
  model.ReferenceStep(2, 1, {0});
  ASSERT_THAT(model.Step(), IsOk());
  model.ReferenceStep(3);
  EXPECT_EQ(model.Paged(), model.Reference());
}

TEST_F(BoundParameterTest, ALoadedOptimizerGoesOnAsIfItHadNeverStopped) {
  for (const KernelSpec& spec : {KernelSpec{.state = StateType::k8Bit},
                                 KernelSpec{.copy = CopyType::kBf16},
                                 KernelSpec{.parameter = ParameterType::kBf16}}) {
    SCOPED_TRACE(NameOf(spec));
    const TempDirectory directory;
    PagedModel model(
        runtime_, {.spec = spec, .groups = {{20000, 10}, {3000}}, .parameters = StorageOf(spec)});
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(1);
    // The save is written beside the next step, and has the content from before it.
    SaveHandle save = model.optimizer().StartSave(directory.path()).value();
    ASSERT_THAT(model.Step(), IsOk());
    ASSERT_THAT(save.Wait(), IsOk());
    model.Recreate();
    ASSERT_THAT(model.optimizer().Load(directory.path()), IsOk());
    EXPECT_EQ(model.Paged(), model.Reference());
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(2);
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

TEST_F(BoundParameterTest, SavesOfTensorsAndOfMemoryAreTheSame) {
  const TempDirectory directory;
  PagedModel tensors(runtime_, {.groups = {{20000, 10}}});
  ASSERT_THAT(tensors.Step(), IsOk());
  ASSERT_THAT(tensors.optimizer().Save(directory.path()), IsOk());
  PagedModel memory(runtime_, {.groups = {{20000, 10}}, .parameters = Storage::kMemory});
  ASSERT_THAT(memory.optimizer().Load(directory.path()), IsOk());
  EXPECT_EQ(memory.Paged(), tensors.Paged());
}

TEST_F(BoundParameterTest, OnlyTheStatesTakeRoomInTheTiers) {
  const auto committed = [&] { return runtime_->GetStats().tiers["nvme"].committed_bytes; };
  const std::uint64_t before = committed();
  PagedModel model(runtime_, {.groups = {{100 * 1024}}, .parameters = Storage::kMemory});
  EXPECT_EQ(committed() - before, 2u * 100 * 4096);
}

TEST_F(BoundParameterTest, AMasterTakesOnlyWhatTheProgramHasWritten) {
  const KernelSpec spec{.copy = CopyType::kBf16};
  PagedModel model(runtime_, {.spec = spec, .groups = {{5000}}, .parameters = Storage::kMaster});
  ASSERT_THAT(model.Step(), IsOk());
  model.ReferenceStep(1);
  model.memory(0)[2 * 77] = std::byte{0x00};
  model.memory(0)[2 * 77 + 1] = std::byte{0x41};  // 8
  ASSERT_THAT(model.optimizer().RefreshMaster(model.parameter(0)), IsOk());
  model.run(0).SetParameter(77, 8);
  model.run(0).copy[2 * 77] = 0x00;
  model.run(0).copy[2 * 77 + 1] = 0x41;
  EXPECT_EQ(model.Paged(), model.Reference());
}

TEST_F(BoundParameterTest, AParameterMayMoveBetweenSteps) {
  for (const Storage storage : {Storage::kMemory, Storage::kMaster}) {
    runtime_.Start();
    PagedModel model(
        runtime_,
        {.spec = {.copy = CopyType::kBf16}, .groups = {{5000}, {300}}, .parameters = storage});
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(1);
    std::vector<std::byte> before(model.memory(0).begin(), model.memory(0).end());
    std::vector<std::byte> moved = before;
    ASSERT_THAT(model.optimizer().MoveParameters({{{model.parameter(0), moved}}}), IsOk());
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(2);
    EXPECT_TRUE(std::ranges::equal(model.memory(0), before)) << "nobody writes there any more";
    EXPECT_NE(moved, before);
    std::ranges::copy(moved, model.memory(0).begin());
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

TEST_F(BoundParameterTest, ParametersMayTakeEachOthersMemory) {
  PagedModel model(runtime_, {.groups = {{300}, {300}}, .parameters = Storage::kMemory});
  const auto move = [&](std::vector<MovedParameter> moved) {
    return model.optimizer().MoveParameters(moved);
  };
  const MovedParameter first{model.parameter(0), model.memory(1)};
  const MovedParameter second{model.parameter(1), model.memory(0)};
  EXPECT_THAT(move({first}), IsStatus(kInvalidParameter, "overlaps that of the parameter 'p1'"));
  EXPECT_THAT(move({first, second}), IsOk());
  std::vector<std::byte> memory(1204);
  EXPECT_THAT(move({{model.parameter(0), memory}}), IsStatus(kInvalidParameter, "1204 bytes at"));
  const auto odd = std::span(memory).subspan(1, 1200);
  EXPECT_THAT(move({{model.parameter(0), odd}}), IsStatus(kInvalidParameter, "a multiple of 4"));
  ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
  EXPECT_THAT(move({first, second}).code(), absl::StatusCode::kFailedPrecondition);
}

/// Gradients of the last step may be freed, and parameters be made in their place.
TEST_F(BoundParameterTest, AParameterMayHaveTheMemoryOfAGradientThatIsForgotten) {
  PagedModel model(runtime_, {.groups = {{300}}, .parameters = Storage::kMemory});
  ASSERT_THAT(model.Step(), IsOk());
  std::vector<std::byte> gradient(1200);
  OffloadedOptimizer& optimizer = model.optimizer();
  ASSERT_THAT(optimizer.BindGradient(model.parameter(0), {.bytes = gradient}), IsOk());
  const ParameterBinding binding{.name = "new", .shape = {300}, .bytes = gradient};
  EXPECT_THAT(optimizer.BindParameter(binding).status(),
              IsStatus(kInvalidParameter, "overlaps that of the gradient of 'p0'"));
  ASSERT_THAT(optimizer.UnbindGradients(), IsOk());
  EXPECT_THAT(optimizer.BindParameter(binding), IsOk());
  EXPECT_THAT(optimizer.GradientReady(model.group(0)).code(),
              absl::StatusCode::kFailedPrecondition);
}

class BoundParameterMisuseTest : public BoundParameterTest {
 protected:
  BoundParameterMisuseTest() : optimizer_(OffloadedOptimizer::Create(*runtime_, {}).value()) {}
  absl::Status Bind(const ParameterBinding& binding) {
    return optimizer_->BindParameter(binding).status();
  }
  std::vector<float> memory_ = std::vector<float>(200);
  std::span<std::byte> bytes_ = std::as_writable_bytes(std::span(memory_));
  std::unique_ptr<OffloadedOptimizer> optimizer_;
};

TEST_F(BoundParameterMisuseTest, ImpossibleParametersAreRefusedByName) {
  EXPECT_THAT(Bind({.shape = {200}, .bytes = bytes_}),
              IsStatus(kInvalidParameter, "without a name"));
  EXPECT_THAT(
      Bind({.name = "w", .shape = {199}, .bytes = bytes_}),
      IsStatus(kInvalidParameter, "'w': a parameter of 800 bytes, its shape has 199 elements"));
  EXPECT_THAT(Bind({.name = "w", .shape = {0}, .bytes = {}}),
              IsStatus(kInvalidParameter, "'w': a dimension of 0 elements"));
  EXPECT_THAT(Bind({.name = "w", .shape = {INT64_MAX, 4}, .bytes = bytes_}),
              IsStatus(kInvalidParameter, "'w': more elements than memory can have"));
  EXPECT_THAT(Bind({.name = "w", .shape = {200}, .bytes = {static_cast<std::byte*>(nullptr), 800}}),
              IsStatus(kInvalidParameter, "'w': the address of the parameter is null"));
  EXPECT_THAT(Bind({.name = "w", .shape = {199}, .bytes = bytes_.subspan(2, 796)}),
              IsStatus(kInvalidParameter, "'w': the address of the parameter is no multiple of 4"));
  EXPECT_THAT(Bind({.name = "w", .type = DType::kI32, .shape = {200}, .bytes = bytes_}),
              IsStatus(kInvalidParameter, "'w' is i32; bound parameters are f32, bf16 or f16"));
  EXPECT_THAT(Bind({.name = "w", .type = DType::kF16, .shape = {400}, .bytes = bytes_}),
              IsStatus(kInvalidParameter, "'w' is f16, which needs a master"));
  EXPECT_THAT(Bind({.name = "w", .shape = {200}, .bytes = bytes_, .master = true}),
              IsStatus(kInvalidParameter, "'w' is f32, and so its own master"));
}

TEST_F(BoundParameterMisuseTest, MemoryIsBoundOnceAndForOneUse) {
  const TensorId w =
      optimizer_->BindParameter({.name = "w", .shape = {100}, .bytes = bytes_.first(400)}).value();
  EXPECT_THAT(Bind({.name = "tied", .shape = {100}, .bytes = bytes_.first(400)}),
              IsStatus(kInvalidParameter,
                       "'tied': the memory of the parameter overlaps that of the "
                       "parameter 'w'; each parameter is bound once"));
  ASSERT_THAT(optimizer_->AddGroup({.name = "all", .parameters = {w}}), IsOk());
  EXPECT_THAT(optimizer_->AddGroup({.name = "more", .parameters = {w}}),
              IsStatus(kInvalidParameter, "group 'more': 'w' has a group already"));
  EXPECT_THAT(optimizer_->BindGradient(w, {.bytes = bytes_.first(400)}),
              IsStatus(kInvalidParameter,
                       "'w': the memory of the gradient overlaps that of the parameter "
                       "of 'w'"));
  EXPECT_THAT(
      optimizer_->BindCopy(w, {.bytes = bytes_.subspan(200, 200)}),
      IsStatus(kInvalidParameter, "'w': the memory of the copy overlaps that of the parameter"));
  ASSERT_THAT(optimizer_->BindGradient(w, {.bytes = bytes_.subspan(400)}), IsOk());
  EXPECT_THAT(Bind({.name = "x", .shape = {10}, .bytes = bytes_.subspan(760)}),
              IsStatus(kInvalidParameter,
                       "'x': the memory of the parameter overlaps that of the gradient "
                       "of 'w'"));
}

TEST_F(BoundParameterMisuseTest, AParameterWithoutAGroupIsForgotten) {
  const TensorId w =
      optimizer_->BindParameter({.name = "w", .shape = {200}, .bytes = bytes_}).value();
  ASSERT_THAT(optimizer_->UnbindParameter(w), IsOk());
  EXPECT_THAT(optimizer_->UnbindParameter(w),
              IsStatus(kInvalidParameter, "there is no bound parameter"));
  const TensorId again =
      optimizer_->BindParameter({.name = "again", .shape = {200}, .bytes = bytes_}).value();
  EXPECT_NE(again, w);
  ASSERT_THAT(optimizer_->AddGroup({.name = "all", .parameters = {again}}), IsOk());
  EXPECT_THAT(optimizer_->UnbindParameter(again),
              IsStatus(kInvalidParameter, "'again' is in a group"));
}

TEST_F(BoundParameterMisuseTest, AnIdIsKnownToItsOptimizerAlone) {
  const TensorId w =
      optimizer_->BindParameter({.name = "w", .shape = {200}, .bytes = bytes_}).value();
  EXPECT_THAT(optimizer_->State(w), IsStatus(absl::StatusCode::kNotFound, "'w' is no parameter"));
  EXPECT_THAT(optimizer_->BindGradient(w, {.bytes = bytes_}),
              IsStatus(kInvalidParameter, "'w' is no parameter of this optimizer; AddGroup first"));
  const auto other = OffloadedOptimizer::Create(*runtime_, {}).value();
  EXPECT_THAT(other->AddGroup({.name = "all", .parameters = {w}}),
              HasCode(absl::StatusCode::kNotFound));
  const TensorId half = other
                            ->BindParameter({.name = "half",
                                             .type = DType::kBF16,
                                             .shape = {400},
                                             .bytes = bytes_,
                                             .master = true})
                            .value();
  ASSERT_THAT(other->AddGroup({.name = "all", .parameters = {half}}), IsOk());
  std::vector<std::byte> copy(800);
  EXPECT_THAT(other->BindCopy(half, {.bytes = copy}),
              IsStatus(kInvalidParameter, "'half' has a master"));
}

}  // namespace
}  // namespace sluice::optim
