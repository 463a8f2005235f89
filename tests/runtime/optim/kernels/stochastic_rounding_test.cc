#include <gtest/gtest.h>

#include <cmath>

#include "runtime/optim/kernels/kernel.h"
#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

constexpr std::size_t kRoundedCount = 1 << 16;
constexpr RoundingKey kRoundingKey{.seed = 2026, .tensor = 1, .step = 1};

/// SGD without momentum leaves the gradient as its state, and a rate of 0 leaves the parameter.
constexpr KernelSpec kSpec{
    .optimizer = OptimizerKind::kSgd, .parameter = ParameterType::kFp32, .state = StateType::kBf16};

/// The states after rounding `value` in every element.
TensorRun RoundEverywhere(float value, const RoundingKey& key) {
  TensorRun run(kSpec, kRoundedCount);
  for (std::size_t i = 0; i < kRoundedCount; ++i) run.SetGradient(i, value);
  (*FindKernel(kSpec))(run.Args({}, key, 0, kRoundedCount));
  return run;
}

double ShareUp(const TensorRun& run, float down) {
  double up = 0;
  for (std::size_t i = 0; i < kRoundedCount; ++i) up += run.state(0, i) == down ? 0 : 1;
  return up / kRoundedCount;
}

TEST(StochasticRoundingTest, RoundsUpAsOftenAsTheRestIsLarge) {
  for (const double rest : {0.0, 0.01, 0.25, 0.5, 0.8, 0.999}) {
    const auto value = static_cast<float>(1 + rest / 128);  // bf16's neighbours: 1 and 1 + 1/128
    const double exact = 128 * (double{value} - 1);
    const double share = ShareUp(RoundEverywhere(value, kRoundingKey), 1.0f);
    // Five standard deviations.
    EXPECT_NEAR(share, exact, 5 * std::sqrt(exact * (1 - exact) / kRoundedCount)) << rest;
  }
}

TEST(StochasticRoundingTest, NegativeValuesAreRoundedAlike) {
  const double share = ShareUp(RoundEverywhere(-1.001953125f, kRoundingKey), -1.0f);
  EXPECT_NEAR(share, 0.25, 5 * std::sqrt(0.25 * 0.75 / kRoundedCount));
}

TEST(StochasticRoundingTest, NumbersOfBf16Stay) {
  for (const float value : {0.0f, 1.0f, -3.25f, 0x1p-130f}) {
    EXPECT_EQ(ShareUp(RoundEverywhere(value, kRoundingKey), value), 0) << value;
  }
}

/// A weight that 1000 updates move by a hundredth of bf16's distance each. Rounded to nearest, it
/// would stay.
TEST(StochasticRoundingTest, SmallStepsAddUp) {
  const KernelSpec spec{.optimizer = OptimizerKind::kSgd, .parameter = ParameterType::kBf16};
  constexpr std::size_t kWeights = 4096;
  constexpr int kSteps = 1000;
  TensorRun run(spec, kWeights);
  for (std::size_t i = 0; i < kWeights; ++i) {
    run.SetParameter(i, 1);
    run.SetGradient(i, -1);
  }
  for (int t = 1; t <= kSteps; ++t) {
    const KernelScalars scalars{.learning_rate = 0.01f / 128};
    (*FindKernel(spec))(
        run.Args(scalars, {.seed = 3, .step = static_cast<std::uint64_t>(t)}, 0, kWeights));
  }
  double mean = 0;
  for (std::size_t i = 0; i < kWeights; ++i) mean += run.parameter(i) / kWeights;
  // The deviation of one weight is below sqrt(steps * 0.01) / 128.
  EXPECT_NEAR(
      mean, 1 + kSteps * 0.01 / 128, 5 * std::sqrt(kSteps * 0.01) / 128 / std::sqrt(kWeights));
}

TEST(StochasticRoundingTest, TheSameKeyGivesTheSameBitsAndAnyOtherDoesNot) {
  const TensorRun run = RoundEverywhere(1.00390625f, kRoundingKey);
  EXPECT_EQ(RoundEverywhere(1.00390625f, kRoundingKey).Difference(run), "");
  for (const RoundingKey& key :
       {RoundingKey{2027, 1, 1}, RoundingKey{2026, 2, 1}, RoundingKey{2026, 1, 2}}) {
    EXPECT_NE(RoundEverywhere(1.00390625f, key).Difference(run), "");
  }
}

/// Share of equal bits: a half if the bits are independent.
double Agreement(std::uint32_t bit,
                 const RoundingKey& a,
                 const RoundingKey& b,
                 int before_b,
                 std::uint64_t shift) {
  double same = 0;
  for (std::uint64_t i = 0; i < kRoundedCount; ++i) {
    const std::uint32_t difference = ReferenceBits(a, i, 0) ^ ReferenceBits(b, i + shift, before_b);
    same += (difference >> bit) % 2 == 0 ? 1 : 0;
  }
  return same / kRoundedCount;
}

TEST(StochasticRoundingTest, NeighboursStepsTensorsAndNumbersAreIndependent) {
  const double limit = 5 * 0.5 / std::sqrt(kRoundedCount);
  RoundingKey step = kRoundingKey, tensor = kRoundingKey, seed = kRoundingKey;
  ++step.step;
  ++tensor.tensor;
  ++seed.seed;
  for (std::uint32_t bit = 0; bit < 16; ++bit) {
    SCOPED_TRACE(bit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, kRoundingKey, 0, 1), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, kRoundingKey, 0, 2), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, kRoundingKey, 0, 16), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, kRoundingKey, 0, 1024), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, step, 0, 0), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, tensor, 0, 0), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, seed, 0, 0), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, kRoundingKey, 1, 0), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, kRoundingKey, 2, 0), 0.5, limit);
    EXPECT_NEAR(Agreement(bit, kRoundingKey, kRoundingKey, 2, 2), 0.5, limit);
  }
}

/// Every value of both bytes is about as frequent, for every number.
TEST(StochasticRoundingTest, BytesAreUniform) {
  for (int before = 0; before < 3; ++before) {
    for (int shift = 0; shift < 16; shift += 8) {
      double counts[256] = {};
      for (std::uint64_t i = 0; i < kRoundedCount; ++i) {
        ++counts[(ReferenceBits(kRoundingKey, i, before) >> shift) & 0xff];
      }
      double chi_square = 0;
      for (const double count : counts) {
        chi_square += (count - kRoundedCount / 256.0) * (count - kRoundedCount / 256.0) /
                      (kRoundedCount / 256.0);
      }
      // 255 degrees of freedom: mean 255, deviation 22.6.
      EXPECT_NEAR(chi_square, 255, 5 * 22.6) << before << " " << shift;
    }
  }
}

/// Key for which the first of the two hashes alone gives uneven words.
constexpr RoundingKey kUnevenStart{.seed = 5, .tensor = 1, .step = 1};

/// Chi-square of pairs of elements `lag` apart, over 16 times 16 cells. The first element of a pair
/// has its bits in the given half of its word.
double ChiSquareOfPairs(int before, std::uint64_t lag, std::uint64_t half) {
  constexpr std::uint64_t kPairs = 1 << 18;
  constexpr double kExpected = kPairs / 256.0;
  double counts[16][16] = {};
  for (std::uint64_t n = 0; n < kPairs; ++n) {
    const std::uint64_t i = 2 * n + half;
    const std::uint32_t first = ReferenceBits(kUnevenStart, i, before);
    ++counts[first >> 12][ReferenceBits(kUnevenStart, i + lag, before) >> 12];
  }
  double chi_square = 0;
  for (const auto& row : counts) {
    for (const double count : row) chi_square += (count - kExpected) * (count - kExpected);
  }
  return chi_square / kExpected;
}

/// Lags that are powers of two show a poor hash of the elements' numbers.
TEST(StochasticRoundingTest, PairsOfElementsAreUniform) {
  for (int before = 0; before < 3; ++before) {
    for (const std::uint64_t lag : {1, 2, 16, 32, 2048, 131072}) {
      for (const std::uint64_t half : {0, 1}) {
        EXPECT_NEAR(ChiSquareOfPairs(before, lag, half), 255, 5 * 22.6)
            << before << " " << lag << " " << half;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::optim
