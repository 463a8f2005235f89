#include "runtime/optim/gradient_scan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/optim/every_target.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

constexpr GradientType kTypes[] = {GradientType::kFp32, GradientType::kBf16, GradientType::kFp16};

GradientScan Scan(GradientType type, const TensorRun& run) {
  return ScanGradients(type, run.gradients.data(), run.count());
}

TEST(GradientScanTest, SumsEveryTypeAlikeOnEveryTarget) {
  for (const GradientType type : kTypes) {
    for (const std::size_t count : {0, 1, 15, 16, 4096, 4097, 20011}) {
      SCOPED_TRACE(std::string(ToString(type)) + " " + std::to_string(count));
      const TensorRun run = TensorRun::Random({.gradient = type}, count, 3);
      double expected = 0;
      for (std::size_t i = 0; i < count; ++i) expected += double{run.gradient(i)} * run.gradient(i);
      const GradientScan scan = Scan(type, run);
      EXPECT_NEAR(scan.sum_of_squares, expected, 1e-6 * expected);
      EXPECT_TRUE(scan.finite);
      OnEveryTarget([&] { EXPECT_EQ(Scan(type, run).sum_of_squares, scan.sum_of_squares); });
    }
  }
}

/// The types hold the same numbers here, so the sums have the same bits.
TEST(GradientScanTest, ATypeIsReadAsFp32) {
  TensorRun bf16 = TensorRun::Random({.gradient = GradientType::kBf16}, 5000, 5);
  TensorRun fp32({}, 5000);
  for (std::size_t i = 0; i < 5000; ++i) fp32.SetGradient(i, bf16.gradient(i));
  EXPECT_EQ(Scan(GradientType::kBf16, bf16).sum_of_squares,
            Scan(GradientType::kFp32, fp32).sum_of_squares);
}

TEST(GradientScanTest, FindsOneBadGradientAnywhere) {
  constexpr std::size_t kCount = 4096 + 37;
  for (const GradientType type : kTypes) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      for (const std::size_t where : {0, 7, 16, 4095, 4096, 4127, 4128, 4132}) {
        TensorRun run = TensorRun::Random({.gradient = type}, kCount, 7);
        run.SetGradient(where, bad);
        OnEveryTarget([&] { EXPECT_FALSE(Scan(type, run).finite) << where; });
      }
    }
  }
}

TEST(GradientScanTest, LargeGradientsAreFiniteThoughTheirSquaresAreNot) {
  TensorRun run({}, 100);
  run.SetGradient(3, 1e30f);
  OnEveryTarget([&] {
    EXPECT_TRUE(Scan(GradientType::kFp32, run).finite);
    EXPECT_EQ(Scan(GradientType::kFp32, run).sum_of_squares, INFINITY);
  });
}

}  // namespace
}  // namespace sluice::optim
