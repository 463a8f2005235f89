// Misuse of an optimizer gives errors that name the wrong argument.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sluice/optimizer.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;

class OptimizerMisuseTest : public ::testing::Test {
 protected:
  OptimizerMisuseTest() {
    runtime_.Start();
    tensor_ = runtime_->CreateTensor({.name = "weights", .shape = {100}}).value();
    optimizer_ = OffloadedOptimizer::Create(*runtime_, {}).value();
  }
  GroupId Add() { return optimizer_->AddGroup({.name = "all", .parameters = {tensor_}}).value(); }
  /// Starts a runtime with `pages` pages of dram and no hbm.
  void StartSmall(RuntimeFixture& small, std::uint64_t pages) {
    optimizer_.reset();
    small.options.hbm_bytes = Bytes();
    small.options.dram_bytes = Bytes(pages * RuntimeFixture::kPage);
    small.Start();
  }
  static constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  static constexpr auto kNotNow = absl::StatusCode::kFailedPrecondition;

  RuntimeFixture runtime_;
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
  EXPECT_THAT(create({.kind = static_cast<OptimizerKind>(9)}), IsStatus(kInvalid, "kind is 9"));
  EXPECT_THAT(create({.state = static_cast<StateType>(9)}), IsStatus(kInvalid, "state is 9"));
  EXPECT_THAT(create({.order = static_cast<SweepOrder>(9)}), IsStatus(kInvalid, "order is 9"));
  EXPECT_THAT(create({.lowest = TierKind::kHbm}), IsStatus(kInvalid, "lowest is hbm, allowed are"));
  EXPECT_THAT(create({.accumulator_lowest = TierKind::kHbm}),
              IsStatus(kInvalid, "accumulator_lowest is hbm"));
  EXPECT_THAT(create({.lowest = static_cast<TierKind>(9)}),
              IsStatus(kInvalid, "lowest is unknown"));
  EXPECT_THAT(create({.accumulate = static_cast<DType>(9)}),
              IsStatus(kInvalid, "accumulate is unknown"));
}

TEST_F(OptimizerMisuseTest, MemoryWithoutAnAddressAndTypesThatAreNoneAreRefused) {
  Add();
  const std::span<std::byte> nowhere(static_cast<std::byte*>(nullptr), 400);
  EXPECT_THAT(optimizer_->BindGradient(tensor_, {.bytes = nowhere}),
              IsStatus(kInvalid, "'weights': the address of the gradient is null"));
  EXPECT_THAT(optimizer_->BindCopy(tensor_, {.bytes = nowhere.first(200)}),
              IsStatus(kInvalid, "'weights': the address of the copy is null"));
  EXPECT_THAT(
      optimizer_->BindGradient(tensor_, {.type = static_cast<DType>(77), .bytes = gradient_}),
      IsStatus(kInvalid, "'weights': gradients are f32, bf16 or f16, not unknown"));
}

TEST_F(OptimizerMisuseTest, AGradientThatWasFreedIsRefusedAndMayBeBoundAnew) {
  const GroupId all = Add();
  const TensorId gradient = runtime_->CreateTensor({.name = "gradient", .shape = {100}}).value();
  ASSERT_THAT(optimizer_->BindGradient(tensor_, {.tensor = gradient}), IsOk());
  ASSERT_THAT(runtime_->Free(gradient), IsOk());
  EXPECT_THAT(optimizer_->GradientReady(all),
              IsStatus(kNotNow, "group 'all': the gradient of 'weights' was freed; BindGradient"));
  ASSERT_THAT(optimizer_->BindGradient(tensor_, {.bytes = gradient_}), IsOk());
  EXPECT_THAT(optimizer_->GradientReady(all), IsOk());
  EXPECT_THAT(optimizer_->Step()->Wait(), IsOk());
}

TEST_F(OptimizerMisuseTest, ANegativeNormIsRefused) {
  optimizer_ = OffloadedOptimizer::Create(*runtime_, {.clip_norm = 1, .norm_given = true}).value();
  const GroupId all = Add();
  ASSERT_THAT(optimizer_->BindGradient(tensor_, {.bytes = gradient_}), IsOk());
  ASSERT_THAT(optimizer_->GradientReady(all), IsOk());
  for (const double norm : {-1.0, -double{INFINITY}}) {
    EXPECT_THAT(optimizer_->Step({.gradient_norm = norm}),
                IsStatus(kInvalid, "gradient_norm is -"));
  }
  EXPECT_THAT(optimizer_->Step({.gradient_norm = 0})->Wait(), IsOk());
}

/// A page of the parameter and one of each state, with fewer of dram.
TEST_F(OptimizerMisuseTest, ADramThatHoldsNoPartIsRefusedByAddGroup) {
  RuntimeFixture small;
  StartSmall(small, 2);
  const TensorId large = small->CreateTensor({.name = "large", .shape = {4096}}).value();
  const TensorId little = small->CreateTensor({.name = "little", .shape = {16}}).value();
  const auto optimizer = OffloadedOptimizer::Create(*small, {}).value();
  EXPECT_THAT(optimizer->AddGroup({.name = "all", .parameters = {little, large}}),
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "group 'all': an update of 'large' needs 12 KiB of dram at least"));
  EXPECT_THAT(optimizer->AddGroup({.name = "all", .parameters = {little}}), IsOk());
}

/// Room is needed for the sums of this group and of earlier ones, which never leave dram, and for
/// one part of each.
TEST_F(OptimizerMisuseTest, SumsThatLeaveNoRoomForAPartAreRefusedByAddGroup) {
  RuntimeFixture small;
  StartSmall(small, 8);
  const auto make = [&](const char* name, std::int64_t pages) {
    return small->CreateTensor({.name = name, .shape = {pages * 1024}}).value();
  };
  const TensorId first = make("first", 3), second = make("second", 3), third = make("third", 2);
  const auto add = [&](OffloadedOptimizer& optimizer, const char* group, TensorId tensor) {
    return optimizer.AddGroup({.name = group, .parameters = {tensor}}).status();
  };
  const auto sums = OffloadedOptimizer::Create(*small, {.accumulate = DType::kF32}).value();
  EXPECT_THAT(add(*sums, "one", first), IsOk());
  EXPECT_THAT(add(*sums, "two", second),
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "group 'two': an update of 'second' needs 36 KiB of dram at least, pages of "
                       "4 KiB of it and its states and 24 KiB of sums"));
  EXPECT_THAT(add(*sums, "two", third), IsOk());
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
  EXPECT_THAT(optimizer_->BindGradient(tensor_, {.bytes = gradient_}),
              IsStatus(kInvalid, "'weights' is no parameter of this optimizer; AddGroup first"));
  Add();
  const auto bind = [&](const GradientBinding& gradient) {
    return optimizer_->BindGradient(tensor_, gradient);
  };
  EXPECT_THAT(bind({.bytes = std::span(gradient_).first(396)}),
              IsStatus(kInvalid, "'weights': a gradient of 396 bytes"));
  EXPECT_THAT(bind({}), IsStatus(kInvalid, "'weights': a gradient with neither bytes nor"));
  std::vector<std::byte> odd(401);
  EXPECT_THAT(bind({.bytes = std::span(odd).subspan(1)}), IsStatus(kInvalid, "no multiple of 4"));
  EXPECT_THAT(bind({.type = DType::kI8, .bytes = gradient_}), IsStatus(kInvalid, "not i8"));
  const TensorId other = runtime_->CreateTensor({.name = "other", .shape = {99}}).value();
  EXPECT_THAT(bind({.tensor = other}), IsStatus(kInvalid, "'other' has 99 elements"));
  EXPECT_THAT(bind({.bytes = gradient_, .tensor = other}), IsStatus(kInvalid, "give one of them"));
  EXPECT_THAT(bind({.bytes = gradient_, .discard = true}), IsStatus(kInvalid, "only a tensor"));
  EXPECT_THAT(optimizer_->BindCopy(tensor_, {.type = DType::kF32, .bytes = gradient_}),
              IsStatus(kInvalid, "copies are bf16 or f16"));
}

/// An update leases in dram, which would otherwise be found out by Wait.
TEST_F(OptimizerMisuseTest, TensorsThatAnUpdateCannotLeaseAreRefused) {
  const GroupId all = Add();
  const auto create = [&](const std::string& name, DType type) {
    return runtime_
        ->CreateTensor({.name = name, .shape = {100}, .dtype = type, .lowest = TierKind::kHbm})
        .value();
  };
  const TensorId stays = create("stays", DType::kF32);
  const TensorId copy = create("copy", DType::kBF16);
  const char* why = "an update needs it in dram: tensor '";
  EXPECT_THAT(
      optimizer_->AddGroup({.name = "hbm", .parameters = {stays}}),
      IsStatus(kInvalid, std::string(why) + "stays' may not reach dram0; its lowest is hbm"));
  EXPECT_THAT(optimizer_->BindGradient(tensor_, {.tensor = stays}),
              IsStatus(kInvalid, std::string(why) + "stays' may not reach dram0"));
  EXPECT_THAT(optimizer_->BindCopy(tensor_, {.tensor = copy}),
              IsStatus(kInvalid, std::string(why) + "copy' may not reach dram0"));
  ASSERT_THAT(optimizer_->BindGradient(tensor_, {.bytes = gradient_}), IsOk());
  ASSERT_THAT(optimizer_->GradientReady(all), IsOk());
  EXPECT_THAT(optimizer_->Step()->Wait(), IsOk());
}

/// An update would overwrite one with the other, or discard it.
TEST_F(OptimizerMisuseTest, TensorsOfTheOptimizerAreBoundToNothingElse) {
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

/// The second update would read zeros.
TEST_F(OptimizerMisuseTest, AGradientThatIsDiscardedIsNotShared) {
  const GroupId first = Add();
  const auto second = runtime_->CreateTensor({.name = "second", .shape = {100}}).value();
  const auto third = runtime_->CreateTensor({.name = "third", .shape = {100}}).value();
  const auto gradient = runtime_->CreateTensor({.name = "gradient", .shape = {100}}).value();
  const GroupId more =
      optimizer_->AddGroup({.name = "more", .parameters = {second, third}}).value();
  const auto bind = [&](TensorId of, bool discard) {
    EXPECT_THAT(optimizer_->BindGradient(of, {.tensor = gradient, .discard = discard}), IsOk());
  };
  bind(second, false);
  bind(third, true);
  EXPECT_THAT(optimizer_->GradientReady(more),
              IsStatus(kNotNow, "gradients of 'second' and 'third' are one tensor"));
  bind(third, false);
  ASSERT_THAT(optimizer_->GradientReady(more), IsOk());
  bind(tensor_, true);
  EXPECT_THAT(optimizer_->GradientReady(first),
              IsStatus(kNotNow, "gradients of 'second' and 'weights' are one tensor"));
  bind(tensor_, false);
  ASSERT_THAT(optimizer_->GradientReady(first), IsOk());
  ASSERT_THAT(optimizer_->Step()->Wait(), IsOk());
  bind(tensor_, true);  // another step
  EXPECT_THAT(optimizer_->GradientReady(first), IsOk());
}

/// A step that is repeated would read copies as gradients.
TEST_F(OptimizerMisuseTest, TheMemoryOfACopyIsItsOwn) {
  Add();
  const auto second = runtime_->CreateTensor({.name = "second", .shape = {100}}).value();
  ASSERT_THAT(optimizer_->AddGroup({.name = "more", .parameters = {second}}).status(), IsOk());
  std::vector<std::byte> memory(1000);
  const auto at = [&](std::size_t offset) { return std::span(memory).subspan(offset, 200); };
  const auto gradient = [&](TensorId of, std::size_t offset) {
    return optimizer_->BindGradient(of, {.type = DType::kBF16, .bytes = at(offset)});
  };
  const auto copy = [&](TensorId of, std::size_t offset) {
    return optimizer_->BindCopy(of, {.type = DType::kBF16, .bytes = at(offset)});
  };
  ASSERT_THAT(gradient(tensor_, 200), IsOk());
  EXPECT_THAT(gradient(second, 200), IsOk());  // gradients may share it
  for (const std::size_t offset : {2, 200, 398}) {
    EXPECT_THAT(copy(tensor_, offset),
                IsStatus(kInvalid, "copy overlaps that of the gradient of 'weights'"));
  }
  EXPECT_THAT(copy(tensor_, 0), IsOk());
  EXPECT_THAT(copy(second, 400), IsOk());
  EXPECT_THAT(copy(tensor_, 0), IsOk());  // a second binding of the same memory
  EXPECT_THAT(copy(second, 0),
              IsStatus(kInvalid, "'second': the memory of the copy overlaps that of the copy of"));
  EXPECT_THAT(gradient(second, 100),
              IsStatus(kInvalid, "'second': the memory of the gradient overlaps that of the copy"));
  EXPECT_THAT(gradient(second, 598), IsStatus(kInvalid, "the copy of 'second'"));
  EXPECT_THAT(gradient(second, 600), IsOk());
}

TEST_F(OptimizerMisuseTest, TheOrderOfCallsIsChecked) {
  EXPECT_THAT(optimizer_->Step(), IsStatus(kNotNow, "no group"));
  EXPECT_THAT(StepHandle().Wait(), IsStatus(kNotNow, "this StepHandle is of no step"));
  const GroupId group = Add();
  EXPECT_THAT(optimizer_->GradientReady(group), IsStatus(kNotNow, "'weights' has no gradient"));
  ASSERT_THAT(optimizer_->BindGradient(tensor_, {.bytes = gradient_}), IsOk());
  EXPECT_THAT(optimizer_->Step(), IsStatus(kNotNow, "group 'all' are not complete"));
  EXPECT_THAT(optimizer_->AddGradient(group), IsStatus(kNotNow, "OptimizerOptions::accumulate"));
  ASSERT_THAT(optimizer_->GradientReady(group), IsOk());
  EXPECT_THAT(optimizer_->SetRates(group, {}), IsStatus(kNotNow, "group 'all' is under way"));
  EXPECT_THAT(optimizer_->Save("/tmp"), IsStatus(kNotNow, "under way"));
  for (const double scale : {0.0, -1.0, 0.9e-75, 1.1e75, double{INFINITY}, std::nan("")}) {
    EXPECT_THAT(optimizer_->Step({.loss_scale = scale}),
                IsStatus(kInvalid, ", allowed are 1e-75 to 1e+75"));
  }
  EXPECT_THAT(optimizer_->Step({.loss_scale = 2}), IsStatus(kInvalid, "needs skip_not_finite"));
  EXPECT_THAT(optimizer_->Step({.gradient_norm = 1}), IsStatus(kInvalid, "norm_given is not set"));
  ASSERT_THAT(optimizer_->Step().value().Wait(), IsOk());
  EXPECT_THAT(optimizer_->Step(), IsStatus(kNotNow, "not complete"));
  EXPECT_THAT(optimizer_->State(TensorId{999}), HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(optimizer_->State(runtime_.Make("other", 10)),
              IsStatus(absl::StatusCode::kNotFound, "'other' is no parameter of this optimizer"));
  EXPECT_THAT(optimizer_->GradientReady(GroupId{3}), HasCode(kInvalid));
}

}  // namespace
}  // namespace sluice::optim
