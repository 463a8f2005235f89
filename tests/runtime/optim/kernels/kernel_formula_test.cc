#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/kernels/step_scalars.h"
#include "tests/runtime/optim/kernels/exact_update.h"
#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

/// Numbers that an update begins with.
enum class Start {
  kUsual,    ///< parameters of about 1, gradients of about 0.1
  kSpread,   ///< eight orders of magnitude, states that go with their gradients
  kExtreme,  ///< twenty-four orders of magnitude, without any relation
  kZero,     ///< parameters are zero, and gradients of one sign
  kSmall,    ///< parameters are about as large as a step
  kEps,      ///< parameters as kSmall, roots of squares about as large as eps
};
constexpr Start kStarts[] = {
    Start::kUsual, Start::kSpread, Start::kExtreme, Start::kZero, Start::kSmall, Start::kEps};

constexpr OptimizerKind kKinds[] = {OptimizerKind::kAdam,
                                    OptimizerKind::kAdamW,
                                    OptimizerKind::kSgd,
                                    OptimizerKind::kNesterov,
                                    OptimizerKind::kLion,
                                    OptimizerKind::kAdagrad};

constexpr std::string_view kStartNames[] = {"usual", "spread", "extreme", "zero", "small", "eps"};

/// Numbers for one start, from a seed.
class Numbers {
 public:
  Numbers(Start start, std::uint64_t seed) : start_(start), random_(seed) {}

  float Parameter() {
    if (start_ == Start::kSmall || start_ == Start::kEps) return 1e-3f * Within(-1.5, 1);
    return start_ == Start::kZero ? 0 : Draw();
  }
  float Gradient() {
    if (start_ == Start::kEps) return 1e-8f * normal_(random_);
    const bool is_usual = start_ == Start::kUsual || start_ == Start::kSmall;
    const float value = is_usual ? 0.1f * normal_(random_) : Draw();
    return start_ == Start::kZero ? std::abs(value) : value;
  }
  /// A state that follows a gradient, or its square.
  float State(float gradient, bool is_signed) {
    const float like = is_signed ? gradient : gradient * gradient;
    const float value = start_ == Start::kExtreme ? Draw() : like * Within(-2, 1);
    return is_signed ? value : std::abs(value);
  }

 private:
  float Draw() {
    if (start_ == Start::kUsual) return normal_(random_);
    return start_ == Start::kExtreme ? Within(-12, 12) : Within(-6, 2);
  }
  /// A random number of about 10^`low` to 10^`high`.
  float Within(double low, double high) {
    const double exponent = std::uniform_real_distribution<double>(low, high)(random_);
    return normal_(random_) * static_cast<float>(std::pow(10, exponent));
  }

  Start start_;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

TensorRun MakeRun(const KernelSpec& spec, std::size_t count, Start start, std::uint64_t seed) {
  Numbers numbers(start, seed);
  TensorRun run(spec, count);
  for (std::size_t i = 0; i < count; ++i) {
    run.SetParameter(i, numbers.Parameter());
    run.SetGradient(i, numbers.Gradient());
    for (int k = 0; k < StateCount(spec.optimizer); ++k) {
      run.SetState(k, i, numbers.State(run.gradient(i), IsSigned(spec.optimizer, k)));
    }
  }
  return run;
}

/// Largest error of one number of one step in units in the last place: docs/optimizer-kernels.md.
constexpr double kUlpMax = 5;

class KernelFormulaTest : public ::testing::TestWithParam<std::tuple<OptimizerKind, Start>> {
 protected:
  OptimizerKind kind() const { return std::get<0>(GetParam()); }
  Start start() const { return std::get<1>(GetParam()); }
};

/// The larger number, or a NaN if either is one: no limit is above a NaN.
double Larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// Errors of one step in units in the last place of the largest term.
class StepErrors {
 public:
  StepErrors(OptimizerKind kind, const KernelScalars& scalars)
      : kind_(kind), scalars_(ExactScalars::Of(scalars)) {}

  /// Largest error of element `i`, which was updated from `before` to `after`.
  double Of(const TensorRun& before, const TensorRun& after, std::size_t i) const {
    ExactElement e{.p = before.parameter(i)};
    for (int k = 0; k < StateCount(kind_); ++k) e.states[k] = before.state(k, i);
    ExactUpdate(kind_, scalars_, before.gradient(i), &e);
    double most = ParameterError(before.parameter(i), after.parameter(i), e);
    for (int k = 0; k < StateCount(kind_); ++k) {
      most = Larger(most, std::abs(after.state(k, i) - e.states[k]) / UlpOf(e.state_terms[k]));
    }
    return most;
  }

 private:
  double ParameterError(double before, double after, const ExactElement& e) const {
    const double ulp = UlpOf(std::max(std::abs(before), e.step_term));
    const double error = std::abs(after - e.p) / ulp;
    if (kind_ != OptimizerKind::kLion || e.sign_margin > 0x1p-22) return error;
    // Either sign is right so near zero, and so is none.
    double least = error;
    for (const double signs : {-2, -1, 1, 2}) {
      least = std::min(least, std::abs(after - e.p - signs * scalars_.rate) / ulp);
    }
    return least;
  }

  OptimizerKind kind_;
  ExactScalars scalars_;
};

/// Sets gradients for which the number whose sign Lion takes is nearly zero.
void MakeLionUncertain(float beta1, TensorRun* run) {
  for (std::size_t i = 0; i < run->count(); i += 8) {
    run->SetGradient(i, -run->state(0, i) * beta1 / (1.0f - beta1));
  }
}

TEST_P(KernelFormulaTest, OneStepIsWithinTheStatedUlpOfTheLargestTerm) {
  constexpr std::size_t kCount = 5003;
  const KernelSpec spec{.optimizer = kind()};
  double most = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const double decay = seed % 2 == 0 ? 0.1 : 0;
    const KernelScalars scalars = MakeScalars(
        {.learning_rate = 1e-3, .weight_decay = decay}, static_cast<std::int64_t>(seed), 1);
    const StepErrors errors(kind(), scalars);
    TensorRun before = MakeRun(spec, kCount, start(), seed);
    if (kind() == OptimizerKind::kLion) MakeLionUncertain(scalars.beta1, &before);
    for (const SimdTarget target : SupportedSimdTargets()) {
      TensorRun after = before;
      (*FindKernel(spec, target))(after.Args(scalars, {}, 0, kCount));
      for (std::size_t i = 0; i < kCount; ++i) {
        const double error = errors.Of(before, after, i);
        ASSERT_LE(error, kUlpMax) << ToString(target) << " " << i;
        most = std::max(most, error);
      }
    }
  }
  // A row of docs/results/optim-accuracy.jsonl.
  std::printf("{\"case\":\"%s/%s\",\"value\":%.2f,\"unit\":\"ulp\"}\n",
              std::string(ToString(kind())).c_str(),
              std::string(kStartNames[static_cast<std::size_t>(start())]).c_str(),
              most);
}

/// A tensor in double, from which the run of a kernel starts too.
class ExactRun {
 public:
  ExactRun(OptimizerKind kind, const TensorRun& run)
      : kind_(kind), elements_(run.count()), undecided_(run.count()) {
    for (std::size_t i = 0; i < run.count(); ++i) elements_[i].p = run.parameter(i);
  }

  void Update(const GroupRates& rates, int t, const std::vector<float>& gradients) {
    const ExactScalars scalars = ExactScalars::OfStep(kind_, rates, t);
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      ExactUpdate(kind_, scalars, gradients[i], &elements_[i]);
      // Rounded scalars and a rounded sum of steps leave the sign open below this margin.
      if (elements_[i].sign_margin < 1e-5) ++undecided_[i];
    }
  }

  /// The largest error of a parameter over 1e-5 of the largest. A step of Lion in which the sign
  /// was undecided may have gone the other way.
  double ErrorOverLimit(const TensorRun& run, double rate) const {
    double error = 0, most = 0;
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      const double allowed = 2 * rate * undecided_[i];
      error = Larger(error, std::abs(run.parameter(i) - elements_[i].p) - allowed);
      most = std::max(most, std::abs(elements_[i].p));
    }
    return error / (1e-5 * most);
  }
  int undecided() const { return std::accumulate(undecided_.begin(), undecided_.end(), 0); }

 private:
  OptimizerKind kind_;
  std::vector<ExactElement> elements_;
  std::vector<int> undecided_;
};

/// Rates of a run of a hundred steps. Among the values of beta2, 0.9999 is the farthest from its
/// fp32 number, seen from 1.
GroupRates RatesOf(OptimizerKind kind, std::uint64_t seed) {
  constexpr double kBeta2[] = {0.999, 0.95, 0.9999};
  return {.learning_rate = 1e-3,
          .beta2 = kind == OptimizerKind::kLion ? 0.99 : kBeta2[seed % 3],
          .weight_decay = seed == 1 ? 0 : 0.1};
}

/// The reference is the textbook's formula, whose scalars are doubles, too.
TEST_P(KernelFormulaTest, AHundredStepsStayWithin1e5thOfTheLargestParameter) {
  constexpr std::size_t kCount = 1003;
  const KernelSpec spec{.optimizer = kind()};
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const GroupRates rates = RatesOf(kind(), seed);
    TensorRun first = MakeRun(spec, kCount, start(), seed);
    for (int k = 0; k < StateCount(kind()); ++k) {
      for (std::size_t i = 0; i < kCount; ++i) first.SetState(k, i, 0);
    }
    ExactRun exact(kind(), first);
    std::vector<TensorRun> runs(SupportedSimdTargets().size(), first);
    Numbers numbers(start(), seed + 100);
    std::vector<float> gradients(kCount);
    for (int t = 1; t <= 100; ++t) {
      for (float& g : gradients) g = numbers.Gradient();
      exact.Update(rates, t, gradients);
      for (std::size_t r = 0; r < runs.size(); ++r) {
        for (std::size_t i = 0; i < kCount; ++i) runs[r].SetGradient(i, gradients[i]);
        const Kernel kernel = *FindKernel(spec, SupportedSimdTargets()[r]);
        kernel(runs[r].Args(MakeScalars(rates, t, 1), {}, 0, kCount));
      }
    }
    for (std::size_t r = 0; r < runs.size(); ++r) {
      EXPECT_LE(exact.ErrorOverLimit(runs[r], rates.learning_rate), 1)
          << ToString(SupportedSimdTargets()[r]);
    }
    EXPECT_LT(exact.undecided(), 50) << "the exception swallows the rule";
  }
}

TEST(MakeScalarsTest, CorrectionsFitTheBetasThatTheKernelComputesWith) {
  for (const double beta : {0.9, 0.999, 0.9999}) {
    const KernelScalars scalars = MakeScalars({.beta1 = beta, .beta2 = beta}, 1, 1);
    // A first gradient has all of the weight.
    EXPECT_NEAR((1.0 - double{scalars.beta1}) * scalars.moment1_scale, 1, 1e-7) << beta;
    EXPECT_NEAR((1.0 - double{scalars.beta2}) * scalars.moment2_scale, 1, 1e-7) << beta;
  }
}

TEST(MakeScalarsTest, AFactorIsOneNumberWhereFp32HasRoomForIt) {
  for (const double factor : {0x1p-126, 1e-30, 0.7, 1.0, 1e30, 3.4e38, 0.0, double{INFINITY}}) {
    const KernelScalars scalars = MakeScalars({}, 1, factor);
    EXPECT_EQ(scalars.grad_power, 1) << factor;
    EXPECT_EQ(scalars.grad_scale, static_cast<float>(factor));
  }
  for (const double factor : {1.1e-38, 1e-39, 1e-45, 1e-60, 1e-75, 3.5e38, 1e50, 1e75}) {
    const KernelScalars scalars = MakeScalars({}, 1, factor);
    const double product = double{scalars.grad_power} * double{scalars.grad_scale};
    EXPECT_NEAR(product, factor, 0x1p-24 * factor);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scalars.grad_power, &exponent), 0.5f) << "a power of two";
    EXPECT_TRUE(std::isnormal(scalars.grad_power) && std::isnormal(scalars.grad_scale)) << factor;
  }
}

TEST(MakeScalarsTest, OnlyANormAboveTheLimitIsCut) {
  EXPECT_EQ(ClipFactor(2, 8), 0.25);
  EXPECT_EQ(ClipFactor(1, 3e38), 1 / 3e38);
  EXPECT_EQ(ClipFactor(1, INFINITY), 0);
  for (const double norm : {0.0, 1.0, 2.0, std::nan("")}) EXPECT_EQ(ClipFactor(2, norm), 1);
  EXPECT_EQ(ClipFactor(0, 8), 1);
}

TEST(MakeScalarsTest, ABetaThatRoundsTo1IsTheNextNumberBelow) {
  const KernelScalars scalars = MakeScalars({.beta1 = 1 - 1e-12, .beta2 = 1 - 1e-12}, 1, 1);
  EXPECT_LT(scalars.beta2, 1);
  EXPECT_TRUE(std::isfinite(scalars.moment1_scale));
}

std::string NameOfCase(const ::testing::TestParamInfo<std::tuple<OptimizerKind, Start>>& info) {
  const auto start = static_cast<std::size_t>(std::get<1>(info.param));
  return std::string(ToString(std::get<0>(info.param))) + "_" + std::string(kStartNames[start]);
}

INSTANTIATE_TEST_SUITE_P(All,
                         KernelFormulaTest,
                         ::testing::Combine(::testing::ValuesIn(kKinds),
                                            ::testing::ValuesIn(kStarts)),
                         NameOfCase);

}  // namespace
}  // namespace sluice::optim
