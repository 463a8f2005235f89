#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>

#include "runtime/optim/kernels/kernel.h"
#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

constexpr RoundingKey kRareKey{.seed = 3, .tensor = 1, .step = 8};
constexpr float kRare[] = {
    NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 2e19f, -1e38f, 0, -0.0f, 1e-45f, -1e-39f};

/// Combinations with fp32 parameters and states, and gradients and copies of every type.
std::vector<KernelSpec> Fp32Specs() {
  std::vector<KernelSpec> specs;
  for (const KernelSpec& spec : AllSpecs()) {
    if (spec.state == StateType::kFp32 && spec.parameter == ParameterType::kFp32) {
      specs.push_back(spec);
    }
  }
  return specs;
}

/// A run in which every number is a rare one with this probability.
TensorRun RunWithRareNumbers(const KernelSpec& spec,
                             std::size_t count,
                             double probability,
                             std::uint64_t seed) {
  TensorRun run = TensorRun::Random(spec, count, seed);
  std::mt19937_64 random(seed);
  std::bernoulli_distribution is_rare(probability);
  const auto rare = [&] { return kRare[random() % std::size(kRare)]; };
  for (std::size_t i = 0; i < count; ++i) {
    if (is_rare(random)) run.SetParameter(i, rare());
    if (is_rare(random)) run.SetGradient(i, rare());
    for (int k = 0; k < StateCount(spec.optimizer); ++k) {
      if (is_rare(random)) run.SetState(k, i, rare());
    }
  }
  return run;
}

void ExpectSame(float a, float b) {
  const bool same = std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  ASSERT_TRUE(same || (std::isnan(a) && std::isnan(b))) << a << " instead of " << b;
}

void ExpectSameElement(const KernelSpec& spec,
                       const TensorRun& run,
                       const TensorRun& expected,
                       std::size_t i) {
  ExpectSame(run.parameter(i), expected.parameter(i));
  bool has_nan = std::isnan(expected.parameter(i));
  for (int k = 0; k < StateCount(spec.optimizer); ++k) {
    ExpectSame(run.state(k, i), expected.state(k, i));
    has_nan = has_nan || std::isnan(expected.state(k, i));
  }
  // The copy too. Which NaN comes out is not specified.
  if (has_nan) return;
  ASSERT_EQ(run.HexOf(i), expected.HexOf(i));
}

void ExpectLikeReference(const KernelSpec& spec,
                         const KernelScalars& scalars,
                         const TensorRun& start,
                         std::size_t begin) {
  const std::size_t count = start.count() - begin;
  TensorRun expected = start;
  const bool finite = ReferenceUpdate(spec, expected.Args(scalars, kRareKey, begin, count));
  for (const SimdTarget target : SupportedSimdTargets()) {
    TensorRun run = start;
    const Kernel kernel = *FindKernel(spec, target);
    EXPECT_EQ(kernel(run.Args(scalars, kRareKey, begin, count)), finite) << ToString(target);
    for (std::size_t i = 0; i < start.count(); ++i) {
      SCOPED_TRACE(NameOf(spec) + " " + std::string(ToString(target)) + " " + std::to_string(i) +
                   " of " + std::to_string(start.count()));
      ExpectSameElement(spec, run, expected, i);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

void ExpectLikeReference(const KernelSpec& spec, const TensorRun& start, std::size_t begin) {
  ExpectLikeReference(spec, UsualScalars(spec.optimizer), start, begin);
}

/// Usual scalars, of which one or more are replaced by rare ones.
KernelScalars RareScalars(OptimizerKind kind, std::mt19937_64& random) {
  constexpr float kBetas[] = {0, 1, 0.5f, 2, NAN};
  constexpr double kRates[] = {0, 100, 1e39, 1e300, INFINITY, NAN, -1};
  constexpr double kEps[] = {0, 1e-320, 1, INFINITY, NAN};
  constexpr float kFactors[] = {0, 1, 1e30f, 3e38f, INFINITY};
  constexpr float kPowers[] = {0x1p-126f, 0x1p-20f, 0x1p20f, 0x1p127f};
  const auto draw = [&](const auto& values) { return values[random() % std::size(values)]; };
  KernelScalars scalars = UsualScalars(kind);
  do {
    const std::uint64_t which = random() % 8;
    if (which == 0) scalars.beta1 = draw(kBetas);
    if (which == 1) scalars.beta2 = draw(kBetas);
    if (which == 2) scalars.learning_rate = draw(kRates);
    if (which == 3) scalars.eps = draw(kEps);
    if (which == 4) scalars.weight_decay = draw(kFactors);
    if (which == 5) scalars.grad_scale = draw(kFactors);
    if (which == 6) scalars.moment2_scale = draw(kFactors);
    if (which == 7) scalars.grad_power = draw(kPowers);
  } while (random() % 2 == 0);
  return scalars;
}

TEST(RareNumbersTest, EveryElementIsThatOfTheReferenceUnderRareScalars) {
  for (std::uint64_t seed = 21; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (const KernelSpec& spec : Fp32Specs()) {
      const KernelScalars scalars = RareScalars(spec.optimizer, random);
      const std::size_t count = 2 + random() % 150;
      ExpectLikeReference(
          spec, scalars, RunWithRareNumbers(spec, count, 0.05, random()), random() % 2);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(RareNumbersTest, EveryElementIsThatOfTheReferenceWhereverRareNumbersAre) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (const KernelSpec& spec : Fp32Specs()) {
      const double probability = seed % 4 == 0 ? 0.5 : 0.004 * static_cast<double>(seed % 4);
      const std::size_t count = 2 + random() % 1500;
      ExpectLikeReference(
          spec, RunWithRareNumbers(spec, count, probability, random()), random() % 2);
      if (HasFatalFailure()) return;
    }
  }
}

/// One bad gradient in each place of the first groups, and one bad state beside it.
TEST(RareNumbersTest, EveryElementIsThatOfTheReferenceWithOneBadNumber) {
  constexpr std::size_t kCount = 103;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kLion}) {
    const KernelSpec spec{.optimizer = kind, .copy = CopyType::kBf16};
    for (std::size_t where = 0; where < kCount; ++where) {
      TensorRun start = TensorRun::Random(spec, kCount, where);
      start.SetGradient(where, INFINITY);
      ExpectLikeReference(spec, start, where % 2);
      start.SetState(0, (where + 32) % kCount, NAN);
      ExpectLikeReference(spec, start, 0);
      if (HasFatalFailure()) return;
    }
  }
}

/// Squares that overflow: the state is infinite and not a NaN, and the gradients were finite.
TEST(RareNumbersTest, NumbersThatOverflowAreInfiniteOnEveryTarget) {
  constexpr std::size_t kCount = 100;
  for (const OptimizerKind kind :
       {OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kAdagrad}) {
    const KernelSpec spec{.optimizer = kind};
    const int squares = StateCount(kind) - 1;
    for (const SimdTarget target : SupportedSimdTargets()) {
      TensorRun run = TensorRun::Random(spec, kCount, 5);
      run.SetGradient(40, 1e30f);
      const Kernel kernel = *FindKernel(spec, target);
      EXPECT_TRUE(kernel(run.Args(UsualScalars(kind), kRareKey, 0, kCount)));
      EXPECT_EQ(run.state(squares, 40), INFINITY) << ToString(kind) << ToString(target);
      EXPECT_FALSE(std::isnan(run.parameter(40))) << ToString(kind) << ToString(target);
    }
  }
}

}  // namespace
}  // namespace sluice::optim
