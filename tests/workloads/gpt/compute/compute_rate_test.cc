#include "workloads/gpt/compute/compute_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::gpt {
namespace {

using ::testing::HasSubstr;

ComputeRate RateOf(double gflops, VectorSet kernels = VectorSet::kAvx2) {
  return {.library = {.name = "oneDNN 2.6.3", .kernels = kernels},
          .processor = VectorSet::kAvx2,
          .threads = 2,
          .gflops = gflops,
          .peak_gflops = 200};
}

TEST(ComputeRateTest, BelowAQuarterOfThePeakIsAFallback) {
  EXPECT_FALSE(FallbackOf(RateOf(50)).has_value());
  const std::optional<FallbackEvent> slow = FallbackOf(RateOf(49));
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->what, "matrix_products");
  EXPECT_EQ(slow->chosen, "AVX2 kernels at 24 % of the peak");
}

TEST(ComputeRateTest, KernelsForOlderProcessorsAreAFallbackAtAnyRate) {
  const std::optional<FallbackEvent> old = FallbackOf(RateOf(150, VectorSet::kSse4));
  ASSERT_TRUE(old.has_value());
  EXPECT_THAT(old->reason, HasSubstr("the processor has AVX2; is ONEDNN_MAX_CPU_ISA"));
  EXPECT_FALSE(FallbackOf(RateOf(150, VectorSet::kAvx512)).has_value());
}

TEST(ComputeRateTest, IsDescribedInOneLine) {
  EXPECT_EQ(Describe(RateOf(150)),
            "oneDNN 2.6.3, AVX2 kernels, 2 threads: 75 % of the peak (150 of 200 GFLOP/s)");
}

TEST(ComputeRateTest, MeasuresBothOnTheThreadsOfTheCaller) {
  const auto threads = ComputeThreads::Create(2).value();
  const ComputeRate rate = MeasureCompute(*threads);
  EXPECT_EQ(rate.threads, 2);
  EXPECT_GT(rate.gflops, 0);
  EXPECT_GT(rate.peak_gflops, 0);
  EXPECT_THAT(rate.library.name, HasSubstr("oneDNN "));
  EXPECT_NE(rate.library.kernels, VectorSet::kNone);
}

}  // namespace
}  // namespace sluice::gpt
