// Finite gradients have a finite norm, and are clipped and unscaled by it however large or small
// they are. A norm that is not finite skips the step, whoever has found it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "runtime/optim/kernels/gradient_scan.h"
#include "sluice/optimizer.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::RuntimeFixture;

constexpr double kRate = 0.5;
constexpr float kInfinite = std::numeric_limits<float>::infinity();

/// A step of one parameter that is 0 at first.
struct OneStep {
  std::vector<float> gradient;
  OptimizerOptions optimizer = {.kind = OptimizerKind::kSgd};
  StepOptions step = {};
  std::uint64_t page = RuntimeFixture::kPage;

  struct Result {
    OptimizerStep done;
    std::int64_t steps = 0;
    std::vector<float> parameter;
  };
  Result Run() const;
};

OneStep::Result OneStep::Run() const {
  RuntimeFixture runtime;
  runtime.options.page_bytes = Bytes(page);
  runtime.options.dram_bytes = Bytes(RuntimeFixture::kDramPages * page);
  runtime.options.nvme_bytes = Bytes(RuntimeFixture::kNvmePages * page);
  runtime.options.hbm_bytes = Bytes(RuntimeFixture::kHbmPages * page);
  runtime.Start();
  const auto count = static_cast<std::int64_t>(gradient.size());
  const TensorId p = runtime->CreateTensor({.name = "p", .shape = {count}}).value();
  const std::vector<float> zeros(gradient.size());
  runtime.Write(p, std::as_bytes(std::span(zeros)));
  const auto sluice = OffloadedOptimizer::Create(*runtime, optimizer).value();
  // SGD without momentum moves a parameter by its gradient.
  const GroupRates rates{.learning_rate = kRate, .beta1 = 0};
  const GroupId group = sluice->AddGroup({.name = "g", .parameters = {p}, .rates = rates}).value();
  EXPECT_THAT(sluice->BindGradient(p, {.bytes = std::as_bytes(std::span(gradient))}), IsOk());
  EXPECT_THAT(sluice->GradientReady(group), IsOk());
  Result result{.done = sluice->Step(step)->Wait().value(), .steps = sluice->step()};
  const std::vector<std::byte> bytes = runtime.Read(p);
  result.parameter.resize(gradient.size());
  std::memcpy(result.parameter.data(), bytes.data(), bytes.size());
  return result;
}

double NormOf(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

/// Three pages and more, of about `size`.
std::vector<float> Wave(float size) {
  std::vector<float> values(10'000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = size * std::sin(0.37f * static_cast<float>(i) + 0.5f);
  }
  return values;
}

/// Checks that the step moved by -kRate * factor * gradient, up to the roundings of fp32.
void ExpectMoved(const OneStep& step, const OneStep::Result& result, double factor) {
  for (std::size_t i = 0; i < result.parameter.size(); ++i) {
    const double expected = -kRate * factor * double{step.gradient[i]};
    const double error = std::max(std::abs(expected) * 0x1p-22, 0x1p-148);
    ASSERT_NEAR(double{result.parameter[i]}, expected, error) << "element " << i;
  }
}

void ExpectClipped(const OneStep& step) {
  const OneStep::Result result = step.Run();
  const double norm = NormOf(step.gradient);
  EXPECT_FALSE(result.done.skipped);
  EXPECT_EQ(result.steps, 1);
  ASSERT_TRUE(result.done.gradient_norm);
  EXPECT_NEAR(*result.done.gradient_norm, norm, 1e-6 * norm);
  ExpectMoved(step, result, step.optimizer.clip_norm / *result.done.gradient_norm);
}

OneStep Clipped(std::vector<float> gradient, double clip_norm) {
  OneStep step{.gradient = std::move(gradient)};
  step.optimizer.clip_norm = clip_norm;
  step.optimizer.skip_not_finite = true;
  return step;
}

TEST(OptimizerNormTest, OneHugeGradientIsClippedAndMovesItsParameter) {
  std::vector<float> gradient(5000, 0.1f);
  gradient[4321] = 3e38f;
  // The factor is denormal in fp32, 0 in fp32, and 0 in the product of two that are not.
  for (const double clip_norm : {1.0, 1e-10, 1e-30}) {
    SCOPED_TRACE(clip_norm);
    ExpectClipped(Clipped(gradient, clip_norm));
  }
  OneStep adam = Clipped(gradient, 1);
  adam.optimizer.kind = OptimizerKind::kAdamW;
  const OneStep::Result result = adam.Run();
  // The first step is the rate itself in the gradient's direction, since beta1 is 0.
  EXPECT_NEAR(result.parameter[4321], -kRate, 1e-6);
}

TEST(OptimizerNormTest, ManyHugeGradientsAreClippedAlikeOnAnyPagesAndThreads) {
  std::vector<float> first;
  for (const std::uint64_t page : {4096u, 16384u, 65536u}) {
    for (const int threads : {1, 3}) {
      OneStep step = Clipped(Wave(3e38f), 1);
      step.page = page;
      step.optimizer.threads = threads;
      ExpectClipped(step);
      const OneStep::Result result = step.Run();
      if (first.empty()) first = result.parameter;
      EXPECT_EQ(result.parameter, first) << page << " " << threads;
    }
  }
}

TEST(OptimizerNormTest, TinyGradientsHaveANormToo) {
  for (const float size : {1e-22f, 1e-30f, 1e-38f}) {
    SCOPED_TRACE(size);
    ExpectClipped(Clipped(Wave(size), double{size} / 10));
  }
  const OneStep::Result zero = Clipped(std::vector<float>(5000), 1).Run();
  EXPECT_EQ(zero.done.gradient_norm, 0.0);
}

TEST(OptimizerNormTest, ANormThatIsGivenGivesTheBitsOfOneThatIsFound) {
  for (const float size : {0.1f, 3e38f, 1e-30f}) {
    const OneStep finds = Clipped(Wave(size), 1e-3 * double{size});
    const OneStep::Result found = finds.Run();
    OneStep given = finds;
    given.optimizer.norm_given = true;
    // The norm is summed like in train.
    given.step.gradient_norm = std::sqrt(SumOfSquares(given.gradient));
    const OneStep::Result result = given.Run();
    EXPECT_EQ(result.done.gradient_norm, found.done.gradient_norm);
    EXPECT_EQ(result.parameter, found.parameter);
  }
}

TEST(OptimizerNormTest, ANormThatIsNotFiniteSkipsInBothWays) {
  const auto expect_skipped = [](const OneStep& step) {
    const OneStep::Result result = step.Run();
    EXPECT_TRUE(result.done.skipped);
    EXPECT_EQ(result.steps, 0);
    EXPECT_EQ(result.parameter, std::vector<float>(step.gradient.size()));
  };
  for (const float bad : {kInfinite, -kInfinite, std::nanf("")}) {
    OneStep found = Clipped(Wave(0.1f), 1);
    found.gradient[5000] = bad;
    expect_skipped(found);
    OneStep given = Clipped(Wave(0.1f), 1);
    given.optimizer.norm_given = true;
    given.step.gradient_norm = std::abs(bad);
    expect_skipped(given);
  }
  // A norm that is finite, and is not once the loss scale is taken out.
  OneStep step = Clipped(Wave(0.1f), 1);
  step.optimizer.norm_given = true;
  step.step = {.loss_scale = 1e-20, .gradient_norm = 1e300};
  expect_skipped(step);
}

TEST(OptimizerNormTest, ALossScaleMayBeBeyondFp32) {
  for (const double power : {-45.0, -42.0, -30.0, 30.0, 39.0, 42.0, 60.0, 75.0}) {
    SCOPED_TRACE(power);
    OneStep step{.gradient = Wave(static_cast<float>(std::pow(10, std::min(power, 38.0))))};
    step.optimizer.skip_not_finite = true;
    step.step.loss_scale = std::pow(10, power);
    ExpectMoved(step, step.Run(), 1 / step.step.loss_scale);
  }
}

}  // namespace
}  // namespace sluice::optim
