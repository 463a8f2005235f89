#include "runtime/optim/kernels/gradient_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/runtime/optim/kernels/every_target.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

constexpr GradientType kTypes[] = {GradientType::kFp32, GradientType::kBf16, GradientType::kFp16};

double Scan(GradientType type, const TensorRun& run) {
  return SumOfSquares(type, run.gradients.data(), run.count());
}

/// The squares themselves, in double.
double ExactSum(const TensorRun& run, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += double{run.gradient(i)} * run.gradient(i);
  return sum;
}

/// A block's sum as gradient_scan.h has it where fp32 has room for it.
double DocumentedSum(const TensorRun& run, std::size_t begin, std::size_t end) {
  float s[16] = {};
  for (; begin + 16 <= end; begin += 16) {
    for (std::size_t k = 0; k < 16; ++k) {
      const float square = run.gradient(begin + k) * run.gradient(begin + k);
      s[k] += square;
    }
  }
  double lanes[4];
  for (std::size_t k = 0; k < 4; ++k) lanes[k] = (s[k] + s[k + 4]) + (s[k + 8] + s[k + 12]);
  double sum = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  for (; begin < end; ++begin) sum += double{run.gradient(begin)} * run.gradient(begin);
  return sum;
}

/// Random ones times `size`.
TensorRun Gradients(std::size_t count, float size) {
  TensorRun run = TensorRun::Random({}, count, 11);
  for (std::size_t i = 0; i < count; ++i) run.SetGradient(i, size * run.gradient(i));
  return run;
}

TEST(GradientScanTest, SumsEveryTypeAlikeOnEveryTarget) {
  for (const GradientType type : kTypes) {
    for (const std::size_t count : {0, 1, 15, 16, 4096, 4097, 20011}) {
      SCOPED_TRACE(std::string(ToString(type)) + " " + std::to_string(count));
      const TensorRun run = TensorRun::Random({.gradient = type}, count, 3);
      const double expected = ExactSum(run, 0, count);
      const double sum = Scan(type, run);
      EXPECT_NEAR(sum, expected, 1e-6 * expected);
      OnEveryTarget([&] { EXPECT_EQ(Scan(type, run), sum); });
    }
  }
}

/// The types hold the same numbers here, so the sums have the same bits.
TEST(GradientScanTest, ATypeIsReadAsFp32) {
  TensorRun bf16 = TensorRun::Random({.gradient = GradientType::kBf16}, 5000, 5);
  TensorRun fp32({}, 5000);
  for (std::size_t i = 0; i < 5000; ++i) fp32.SetGradient(i, bf16.gradient(i));
  EXPECT_EQ(Scan(GradientType::kBf16, bf16), Scan(GradientType::kFp32, fp32));
}

TEST(GradientScanTest, FindsOneBadGradientAnywhere) {
  constexpr std::size_t kCount = 4096 + 37;
  for (const GradientType type : kTypes) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      for (const std::size_t where : {0, 7, 16, 4095, 4096, 4127, 4128, 4132}) {
        TensorRun run = TensorRun::Random({.gradient = type}, kCount, 7);
        run.SetGradient(where, bad);
        OnEveryTarget([&] { EXPECT_FALSE(std::isfinite(Scan(type, run))) << where; });
      }
    }
  }
}

TEST(GradientScanTest, FiniteGradientsHaveAFiniteSumOnEveryTarget) {
  for (const float large : {1e19f, 1e30f, 3.4e38f, -3.4e38f}) {
    for (const std::size_t where : {0, 7, 4095, 4096, 4127, 4128, 4132}) {
      TensorRun run = TensorRun::Random({}, 4096 + 37, 7);
      run.SetGradient(where, large);
      const double expected = ExactSum(run, 0, run.count());
      const double sum = Scan(GradientType::kFp32, run);
      EXPECT_NEAR(sum, expected, 1e-6 * expected) << where;
      OnEveryTarget([&] { EXPECT_EQ(Scan(GradientType::kFp32, run), sum) << where; });
    }
  }
  TensorRun all({.gradient = GradientType::kBf16}, 5000);
  for (std::size_t i = 0; i < 5000; ++i) all.SetGradient(i, 3.3e38f);
  const double expected = ExactSum(all, 0, 5000);
  OnEveryTarget([&] { EXPECT_NEAR(Scan(GradientType::kBf16, all), expected, 1e-9 * expected); });
}

TEST(GradientScanTest, SquaresThatVanishInFp32AreSummedInDouble) {
  // The last ones are denormal, as are the squares of the first.
  for (const float size : {1e-21f, 1e-25f, 1e-38f, 1e-43f}) {
    for (const std::size_t count : {15, 16, 4096, 4097, 10'000}) {
      const TensorRun run = Gradients(count, size);
      const double expected = ExactSum(run, 0, count);
      ASSERT_GT(expected, 0);
      const double sum = Scan(GradientType::kFp32, run);
      EXPECT_NEAR(sum, expected, 1e-9 * expected) << size << " " << count;
      OnEveryTarget([&] { EXPECT_EQ(Scan(GradientType::kFp32, run), sum); });
    }
  }
}

/// Squares that fp32 cannot hold add up to as much as the one that it can, nearly.
TEST(GradientScanTest, SquaresThatVanishBesideOneThatDoesNotCount) {
  TensorRun run({}, 4096);
  for (std::size_t i = 0; i < 4096; ++i) run.SetGradient(i, 0x1p-76f);
  run.SetGradient(100, 0x1p-70f);
  const double expected = ExactSum(run, 0, 4096);
  ASSERT_GT(expected, 1.9 * 0x1p-140);
  EXPECT_NEAR(Scan(GradientType::kFp32, run), expected, 1e-9 * expected);
}

TEST(GradientScanTest, SumsWithinFp32KeepTheirBits) {
  for (const float size : {3e-17f, 1e-10f, 1.0f, 1e10f, 3e18f}) {
    for (const std::size_t count : {1, 100, 4096, 3 * 4096 + 5}) {
      const TensorRun run = Gradients(count, size);
      double expected = 0;
      for (std::size_t begin = 0; begin < count; begin += kSumOfSquaresBlock) {
        expected += DocumentedSum(run, begin, std::min(begin + kSumOfSquaresBlock, count));
      }
      OnEveryTarget([&] { EXPECT_EQ(Scan(GradientType::kFp32, run), expected) << size; });
    }
  }
  EXPECT_EQ(Scan(GradientType::kFp32, TensorRun({}, 5000)), 0);
}

/// A huge gradient changes the sum of its own block only.
TEST(GradientScanTest, OnlyTheBlockThatOverflowsIsSummedInDouble) {
  TensorRun run = Gradients(2 * kSumOfSquaresBlock, 1e18f);
  run.SetGradient(kSumOfSquaresBlock + 5, 2e19f);
  const double expected = DocumentedSum(run, 0, kSumOfSquaresBlock) +
                          SumOfSquares(GradientType::kFp32,
                                       run.gradients.data() + kSumOfSquaresBlock * sizeof(float),
                                       kSumOfSquaresBlock);
  EXPECT_EQ(Scan(GradientType::kFp32, run), expected);
  EXPECT_NEAR(expected, ExactSum(run, 0, run.count()), 1e-6 * expected);
}

}  // namespace
}  // namespace sluice::optim
