#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/kernels/step_scalars.h"
#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

constexpr std::size_t kSpecialCount = 600;
constexpr RoundingKey kSpecialKey{.seed = 1, .tensor = 2, .step = 3};

Kernel KernelFor(const KernelSpec& spec, SimdTarget target) { return *FindKernel(spec, target); }

void SetBits(std::uint32_t bits, std::vector<std::uint8_t>& bytes, std::size_t i) {
  std::memcpy(bytes.data() + 4 * i, &bits, 4);
}

/// Checks the kernels of all targets: a NaN where the reference has one, and else the same bits.
void ExpectLikeReference(const KernelSpec& spec,
                         const KernelScalars& scalars,
                         const TensorRun& start) {
  TensorRun expected = start;
  const bool finite = ReferenceUpdate(spec, expected.Args(scalars, kSpecialKey, 0, start.count()));
  const auto expect_same = [](float a, float b, std::size_t i) {
    const bool same = std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    ASSERT_TRUE(same || (std::isnan(a) && std::isnan(b))) << i << ": " << a << " and " << b;
  };
  for (const SimdTarget target : SupportedSimdTargets()) {
    SCOPED_TRACE(NameOf(spec) + " " + std::string(ToString(target)));
    TensorRun run = start;
    EXPECT_EQ(KernelFor(spec, target)(run.Args(scalars, kSpecialKey, 0, start.count())), finite);
    for (std::size_t i = 0; i < start.count(); ++i) {
      expect_same(run.parameter(i), expected.parameter(i), i);
      for (int k = 0; k < StateCount(spec.optimizer); ++k) {
        expect_same(run.state(k, i), expected.state(k, i), i);
      }
    }
  }
}

void ExpectLikeReference(const KernelSpec& spec, const TensorRun& start) {
  ExpectLikeReference(spec, UsualScalars(spec.optimizer), start);
}

TEST(SpecialValuesTest, GradientsThatAreNoNumbersAreReportedAndStayWithTheirElement) {
  for (const KernelSpec& spec : AllSpecs()) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      for (const std::size_t where : {std::size_t{0}, std::size_t{300}, kSpecialCount - 1}) {
        TensorRun start = TensorRun::Random(spec, kSpecialCount, 23);
        start.SetGradient(where, bad);
        TensorRun run = start;
        ASSERT_FALSE((*FindKernel(spec))(
            run.Args(UsualScalars(spec.optimizer), kSpecialKey, 0, kSpecialCount)))
            << NameOf(spec);
        for (std::size_t i = 0; i < kSpecialCount; ++i) {
          ASSERT_TRUE(i == where || std::isfinite(run.parameter(i))) << NameOf(spec) << " " << i;
        }
      }
    }
    TensorRun start = TensorRun::Random(spec, kSpecialCount, 29);
    start.SetGradient(17, NAN);
    start.SetGradient(400, -INFINITY);
    ExpectLikeReference(spec, start);
  }
}

TEST(SpecialValuesTest, AGradientThatOverflowsWhenScaledIsReported) {
  const KernelSpec spec{.optimizer = OptimizerKind::kSgd};
  TensorRun run = TensorRun::Random(spec, kSpecialCount, 31);
  run.SetGradient(5, 1e38f);
  EXPECT_TRUE((*FindKernel(spec))(run.Args({.grad_scale = 1}, kSpecialKey, 0, kSpecialCount)));
  EXPECT_FALSE((*FindKernel(spec))(run.Args({.grad_scale = 10}, kSpecialKey, 0, kSpecialCount)));
}

/// Factors like these come from clipping to 1 from a norm of 3e38, or from unscaled norms of 1e-45.
TEST(SpecialValuesTest, AFactorBeyondFp32IsRoundedOnceOnEveryTarget) {
  struct Case {
    double factor, gradient;
  };
  for (const Case& at : {Case{1 / 3e38, 3e38}, {1e-45, 1e38}, {1e-60, 2e38}, {1e40, 1e-40}}) {
    for (KernelSpec spec : AllSpecs()) {
      TensorRun start = TensorRun::Random(spec, kSpecialCount, 61);
      for (std::size_t i = 0; i < kSpecialCount; i += 3) {
        start.SetGradient(
            i, static_cast<float>(at.gradient) * std::clamp(start.gradient(i), -1.f, 1.f));
      }
      KernelScalars scalars = UsualScalars(spec.optimizer);
      const KernelScalars factors = MakeScalars({}, 1, at.factor);
      scalars.grad_power = factors.grad_power;
      scalars.grad_scale = factors.grad_scale;
      ExpectLikeReference(spec, scalars, start);
    }
  }
  for (const SimdTarget target : SupportedSimdTargets()) {
    TensorRun run({.optimizer = OptimizerKind::kSgd}, kSpecialCount);
    for (std::size_t i = 0; i < kSpecialCount; ++i)
      run.SetGradient(i, 3e38f / static_cast<float>(i + 1));
    KernelFor({.optimizer = OptimizerKind::kSgd},
              target)(run.Args(MakeScalars({.beta1 = 0}, 1, 1e-45), kSpecialKey, 0, kSpecialCount));
    for (std::size_t i = 0; i < kSpecialCount; ++i) {
      const double expected = double{run.gradient(i)} * 1e-45;
      ASSERT_NEAR(run.state(0, i), expected, 0x1p-23 * expected) << i;
    }
  }
}

/// A NaN whose bits are all ones must not be rounded up to -0.
TEST(SpecialValuesTest, NanStaysNanWhenItIsRounded) {
  for (const ParameterType parameter : {ParameterType::kFp32, ParameterType::kBf16}) {
    for (const std::uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0x7fc00000u}) {
      const KernelSpec spec{
          .optimizer = OptimizerKind::kSgd,
          .parameter = parameter,
          .state = StateType::kBf16,
          .copy = parameter == ParameterType::kFp32 ? CopyType::kBf16 : CopyType::kNone};
      for (const SimdTarget target : SupportedSimdTargets()) {
        TensorRun run = TensorRun::Random(spec, kSpecialCount, 37);
        for (std::size_t i = 0; i < kSpecialCount; ++i) SetBits(bits, run.gradients, i);
        EXPECT_FALSE(
            KernelFor(spec, target)(run.Args({.learning_rate = 1}, kSpecialKey, 0, kSpecialCount)));
        for (std::size_t i = 0; i < kSpecialCount; ++i) {
          ASSERT_TRUE(std::isnan(run.parameter(i)) && std::isnan(run.state(0, i)));
        }
      }
    }
  }
}

/// NaNs of fp16 gradients have bits in the lower half of an fp32, and must stay NaNs, too.
TEST(SpecialValuesTest, NanOfFp16StaysNanWhenItIsRounded) {
  const KernelSpec spec{.optimizer = OptimizerKind::kSgd,
                        .parameter = ParameterType::kBf16,
                        .state = StateType::kBf16,
                        .gradient = GradientType::kFp16};
  for (const SimdTarget target : SupportedSimdTargets()) {
    TensorRun run = TensorRun::Random(spec, kSpecialCount, 43);
    std::fill(run.gradients.begin(), run.gradients.end(), std::uint8_t{0xff});
    EXPECT_FALSE(
        KernelFor(spec, target)(run.Args({.learning_rate = 1}, kSpecialKey, 0, kSpecialCount)));
    for (std::size_t i = 0; i < kSpecialCount; ++i) {
      ASSERT_TRUE(std::isnan(run.parameter(i)) && std::isnan(run.state(0, i))) << i;
    }
  }
}

/// A rate that is a NaN must make NaNs, too.
TEST(SpecialValuesTest, NanOfAScalarStaysNanWhenItIsRounded) {
  const KernelSpec spec{.optimizer = OptimizerKind::kSgd,
                        .parameter = ParameterType::kBf16,
                        .state = StateType::kBf16};
  for (const SimdTarget target : SupportedSimdTargets()) {
    TensorRun run = TensorRun::Random(spec, kSpecialCount, 53);
    const KernelScalars scalars{.learning_rate = std::bit_cast<float>(0x7fffffffu)};
    EXPECT_TRUE(KernelFor(spec, target)(run.Args(scalars, kSpecialKey, 0, kSpecialCount)));
    for (std::size_t i = 0; i < kSpecialCount; ++i) ASSERT_TRUE(std::isnan(run.parameter(i))) << i;
  }
}

TEST(SpecialValuesTest, EveryFp16AndBf16GradientIsReadExactly) {
  constexpr std::size_t kAll = 1 << 16;
  for (const GradientType type : {GradientType::kFp16, GradientType::kBf16}) {
    const KernelSpec spec{.optimizer = OptimizerKind::kSgd, .gradient = type};
    for (const SimdTarget target : SupportedSimdTargets()) {
      TensorRun run(spec, kAll);
      for (std::size_t i = 0; i < kAll; ++i) {
        run.gradients[2 * i] = static_cast<std::uint8_t>(i & 0xff);
        run.gradients[2 * i + 1] = static_cast<std::uint8_t>(i >> 8);
      }
      KernelFor(spec, target)(run.Args({}, kSpecialKey, 0, kAll));
      for (std::size_t i = 0; i < kAll; ++i) {
        const float value = run.gradient(i);
        if (std::isnan(value))
          ASSERT_TRUE(std::isnan(run.state(0, i)));
        else
          ASSERT_EQ(run.state(0, i), value) << i;
      }
    }
  }
}

/// One element of fp32 after an update on `target`.
struct OneElement {
  float p = 0, states[2] = {}, g = 0;

  OneElement Updated(OptimizerKind kind, SimdTarget target, const KernelScalars& scalars) const {
    TensorRun run({.optimizer = kind}, kSpecialCount);
    for (std::size_t i = 0; i < kSpecialCount; ++i) {
      run.SetParameter(i, p);
      run.SetGradient(i, g);
      for (int k = 0; k < StateCount(kind); ++k) run.SetState(k, i, states[k]);
    }
    KernelFor({.optimizer = kind}, target)(run.Args(scalars, kSpecialKey, 0, kSpecialCount));
    // The first element is in a whole vector, the last one in the remainder.
    EXPECT_EQ(std::bit_cast<std::uint32_t>(run.parameter(0)),
              std::bit_cast<std::uint32_t>(run.parameter(kSpecialCount - 1)));
    OneElement after{.p = run.parameter(0), .g = g};
    for (int k = 0; k < StateCount(kind); ++k) after.states[k] = run.state(k, 0);
    return after;
  }
};

/// A gradient and a decay that cancel to 0 give no step, although the root in the divisor is 0 too.
TEST(SpecialValuesTest, ADecayThatCancelsItsGradientMovesNothing) {
  const KernelScalars scalars{.learning_rate = 1e-3,
                              .beta1 = 0.9f,
                              .beta2 = 0.999f,
                              .eps = 1e-8,
                              .weight_decay = 0.1f,
                              .moment1_scale = 1 / (1 - double{0.9f}),
                              .moment2_scale = 1 / (1 - double{0.999f})};
  const float p = 0x1.69389p+6f;
  const OneElement before{.p = p, .g = -(scalars.weight_decay * p)};
  for (const SimdTarget target : SupportedSimdTargets()) {
    for (const auto kind : {OptimizerKind::kAdam, OptimizerKind::kAdagrad}) {
      EXPECT_EQ(before.Updated(kind, target, scalars).p, p) << ToString(kind) << ToString(target);
    }
  }
}

TEST(SpecialValuesTest, AStepThatOverflowsIsInfinite) {
  const KernelScalars scalars{.learning_rate = 1000, .beta1 = 1 - 0x1p-24f, .beta2 = 0.5f};
  for (const SimdTarget target : SupportedSimdTargets()) {
    SCOPED_TRACE(ToString(target));
    for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kNesterov}) {
      const OneElement before{.p = 1, .states = {1e36f}};
      EXPECT_EQ(before.Updated(kind, target, scalars).p, -INFINITY) << ToString(kind);
    }
    const OneElement far{.p = 1e38f, .states = {1}, .g = 1};
    const KernelScalars decaying{
        .learning_rate = 100, .beta1 = 0.9f, .beta2 = 0.99f, .weight_decay = 0.1f};
    EXPECT_EQ(far.Updated(OptimizerKind::kLion, target, decaying).p, -INFINITY);
    for (const auto kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
      // Roots that were rounded up and down.
      for (float square = 1e-20f; square < 2e-20f; square *= 1.0625f) {
        const OneElement before{.p = 1, .states = {1e33f, square}};
        EXPECT_EQ(before.Updated(kind, target, scalars).p, -INFINITY) << ToString(kind);
      }
    }
  }
}

TEST(SpecialValuesTest, UnderAnInfiniteRootNothingMoves) {
  const KernelScalars scalars{.learning_rate = 0.1, .beta1 = 0.9f, .beta2 = 0.5f, .eps = 1e-8};
  for (const SimdTarget target : SupportedSimdTargets()) {
    for (const auto kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
      const OneElement before{.p = 3, .states = {1, INFINITY}, .g = 1};
      const OneElement after = before.Updated(kind, target, scalars);
      EXPECT_EQ(after.p, 3) << ToString(kind) << ToString(target);
      EXPECT_EQ(after.states[1], INFINITY) << ToString(kind) << ToString(target);
    }
  }
}

/// 0 over 0 is no step.
TEST(SpecialValuesTest, ElementsWithoutAGradientStayWithoutEps) {
  for (KernelSpec spec : AllSpecs()) {
    for (const SimdTarget target : SupportedSimdTargets()) {
      TensorRun run(spec, kSpecialCount);
      for (std::size_t i = 0; i < kSpecialCount; ++i) run.SetParameter(i, 2);
      KernelFor(spec, target)(run.Args(
          {.learning_rate = 0.1, .beta1 = 0.9f, .beta2 = 0.9f}, kSpecialKey, 0, kSpecialCount));
      for (std::size_t i = 0; i < kSpecialCount; ++i) {
        ASSERT_EQ(run.parameter(i), 2) << NameOf(spec) << ToString(target);
      }
    }
  }
}

/// A rate of 0 leaves the parameters: any number, denormals, halfway cases and overflow.
TEST(SpecialValuesTest, CopiesOfAnyParameterAreRoundedToNearest) {
  constexpr std::size_t kAll = 1 << 16;
  std::mt19937_64 random(41);
  for (const CopyType type : {CopyType::kFp16, CopyType::kBf16}) {
    const KernelSpec spec{.optimizer = OptimizerKind::kSgd, .copy = type};
    TensorRun start(spec, kAll);
    for (std::size_t i = 0; i < kAll; ++i) {
      // A third near fp16's range, a third with few bits set.
      std::uint32_t bits = static_cast<std::uint32_t>(random());
      if (i % 3 == 0)
        bits = (bits & 0x807fffffu) + 0x33000000u +
               static_cast<std::uint32_t>(random() % 32) * 0x00800000u;
      if (i % 3 == 1) bits &= 0xfffff000u;
      SetBits(bits, start.parameters, i);
    }
    for (const SimdTarget target : SupportedSimdTargets()) {
      TensorRun run = start;
      KernelFor(spec, target)(run.Args({}, kSpecialKey, 0, kAll));
      for (std::size_t i = 0; i < kAll; ++i) {
        const float value = run.parameter(i);
        std::uint16_t copy = 0;
        std::memcpy(&copy, run.copy.data() + 2 * i, 2);
        ASSERT_EQ(copy, type == CopyType::kFp16 ? NearestFp16(value) : NearestBf16(value))
            << value << " " << ToString(target);
      }
    }
  }
}

/// Tiny numbers everywhere.
TensorRun Denormals(const KernelSpec& spec) {
  TensorRun run = TensorRun::Random(spec, kSpecialCount, 43);
  for (std::size_t i = 0; i < kSpecialCount; ++i) {
    run.SetParameter(i, run.parameter(i) * 0x1p-130f);
    run.SetGradient(i, run.gradient(i) * 0x1p-128f);
    if (spec.state == StateType::k8Bit) continue;
    for (int k = 0; k < StateCount(spec.optimizer); ++k) {
      run.SetState(k, i, run.state(k, i) * 0x1p-127f);
    }
  }
  return run;
}

TEST(SpecialValuesTest, DenormalsAreNotFlushed) {
  for (const KernelSpec& spec : AllSpecs()) ExpectLikeReference(spec, Denormals(spec));
}

TEST(SpecialValuesTest, TheThreadsFloatingPointModeHasNoInfluenceAndIsKept) {
  constexpr unsigned kFlushAndRoundDown = 0x1f80 | 0x8040 | 0x2000;
  for (const StateType state : {StateType::kFp32, StateType::kBf16, StateType::k8Bit}) {
    const KernelSpec spec{.state = state};
    TensorRun expected = Denormals(spec);
    TensorRun run = expected;
    const Kernel kernel = *FindKernel(spec);
    const KernelArgs args =
        expected.Args(UsualScalars(spec.optimizer), kSpecialKey, 0, kSpecialCount);
    const KernelArgs other = run.Args(UsualScalars(spec.optimizer), kSpecialKey, 0, kSpecialCount);
    kernel(args);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(kFlushAndRoundDown);
    kernel(other);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & ~0x3fu, kFlushAndRoundDown);
    EXPECT_EQ(run.Difference(expected), "");
  }
}

}  // namespace
}  // namespace sluice::optim
