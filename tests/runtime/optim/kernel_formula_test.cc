#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/optim/kernel.h"
#include "tests/runtime/optim/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

/// An element in double, and the largest magnitude among each of its numbers and their terms.
struct Exact {
  double p = 0;
  double states[2] = {};
  double step_term = 0;  ///< of what is taken from the parameter
  double state_terms[2] = {};
};

double Largest(std::initializer_list<double> terms) {
  double most = 0;
  for (const double term : terms) most = std::max(most, std::abs(term));
  return most;
}

struct Scalars {
  double rate, beta1, beta2, eps, decay, grad_scale, moment1_scale, moment2_scale;
};

Scalars InDouble(const KernelScalars& s) {
  return {s.learning_rate,
          s.beta1,
          s.beta2,
          s.eps,
          s.weight_decay,
          s.grad_scale,
          s.moment1_scale,
          s.moment2_scale};
}

void Move(double move, std::initializer_list<double> parts, Exact* e) {
  e->step_term = Largest(parts);
  e->p -= move;
}

/// state[k] = a + b, where b was made of terms as large as `part`.
void Add(double a, double b, double part, int k, Exact* e) {
  e->states[k] = a + b;
  e->state_terms[k] = Largest({a, b, part, a + b});
}

void Step(OptimizerKind kind, const Scalars& s, double raw, Exact* e) {
  const double g = raw * s.grad_scale;
  const double decayed = g + s.decay * e->p;
  const double term = Largest({g, s.decay * e->p});
  const bool adamw = kind == OptimizerKind::kAdamW;
  switch (kind) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW: {
      const double used = adamw ? g : decayed;
      const double part = adamw ? g : term;
      Add(s.beta1 * e->states[0], (1 - s.beta1) * used, (1 - s.beta1) * part, 0, e);
      Add(s.beta2 * e->states[1], (1 - s.beta2) * used * used, (1 - s.beta2) * part * part, 1, e);
      const double factor =
          s.rate * s.moment1_scale / (std::sqrt(s.moment2_scale * e->states[1]) + s.eps);
      const double decay = adamw ? s.rate * s.decay * e->p : 0;
      return Move(factor * e->states[0] + decay, {factor * e->state_terms[0], decay}, e);
    }
    case OptimizerKind::kSgd:
    case OptimizerKind::kNesterov: {
      Add(s.beta1 * e->states[0], decayed, term, 0, e);
      const double step =
          kind == OptimizerKind::kSgd ? e->states[0] : decayed + s.beta1 * e->states[0];
      return Move(s.rate * step, {s.rate * step, s.rate * e->state_terms[0], s.rate * term}, e);
    }
    case OptimizerKind::kLion: {
      const double blend = s.beta1 * e->states[0] + (1 - s.beta1) * g;
      const double sign = blend > 0 ? 1 : blend < 0 ? -1 : 0;
      Move(s.rate * (sign + s.decay * e->p), {s.rate * sign, s.rate * s.decay * e->p}, e);
      return Add(s.beta2 * e->states[0], (1 - s.beta2) * g, 0, 0, e);
    }
    case OptimizerKind::kAdagrad: {
      Add(e->states[0], decayed * decayed, term * term, 0, e);
      const double quotient = decayed / (std::sqrt(e->states[0]) + s.eps);
      return Move(s.rate * quotient, {s.rate * quotient}, e);
    }
  }
}

double UlpOf(double term) {
  const auto value = static_cast<float>(term);
  return double{std::nextafter(value, INFINITY)} - double{value};
}

constexpr OptimizerKind kKinds[] = {OptimizerKind::kAdam,
                                    OptimizerKind::kAdamW,
                                    OptimizerKind::kSgd,
                                    OptimizerKind::kNesterov,
                                    OptimizerKind::kLion,
                                    OptimizerKind::kAdagrad};

/// Units in the last place of the largest term that a state may be off: 2, more where the gradient
/// that goes into it was rounded more often, and twice that for its square.
double StateLimit(OptimizerKind kind, int k) {
  const bool decayed = kind == OptimizerKind::kAdam;
  return IsSigned(kind, k) ? (decayed ? 3 : 2) : 4;
}

/// The same of a parameter. Where it is hardly larger than its step, the step's own roundings show.
double ParameterError(double actual, double before, const Exact& e) {
  const double largest = std::max(std::abs(before), e.step_term);
  const double limit = std::abs(before) >= 4 * e.step_term ? 2 : 4;
  return std::abs(actual - e.p) / UlpOf(largest) / limit;
}

class KernelFormulaTest : public ::testing::TestWithParam<OptimizerKind> {};

TEST_P(KernelFormulaTest, OneStepIsWithinAFewUlpOfTheLargestTerm) {
  constexpr std::size_t kCount = 20000;
  const KernelSpec spec{.optimizer = GetParam()};
  const KernelScalars scalars = UsualScalars(spec.optimizer);
  const Scalars doubles = InDouble(scalars);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TensorRun start = TensorRun::Random(spec, kCount, seed);
    TensorRun run = start;
    (*FindKernel(spec))(run.Args(scalars, {}, 0, kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      Exact e{.p = start.parameter(i)};
      for (int k = 0; k < StateCount(spec.optimizer); ++k) e.states[k] = start.state(k, i);
      Step(spec.optimizer, doubles, start.gradient(i), &e);
      ASSERT_LE(ParameterError(run.parameter(i), start.parameter(i), e), 1) << i;
      for (int k = 0; k < StateCount(spec.optimizer); ++k) {
        const double error = std::abs(run.state(k, i) - e.states[k]) / UlpOf(e.state_terms[k]);
        ASSERT_LE(error, StateLimit(spec.optimizer, k)) << i;
      }
    }
  }
}

/// Against the published formula, whose scalars are doubles too.
TEST_P(KernelFormulaTest, AHundredStepsStayWithin1e5thOfTheLargestParameter) {
  constexpr std::size_t kCount = 3000;
  constexpr std::uint64_t kSeed = 5;
  const KernelSpec spec{.optimizer = GetParam()};
  TensorRun run = TensorRun::Random(spec, kCount, kSeed);
  std::vector<Exact> exact(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    exact[i].p = run.parameter(i);
    for (int k = 0; k < StateCount(spec.optimizer); ++k) run.SetState(k, i, 0);
  }
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal;
  Scalars doubles{1e-3, 0.9, 0.999, 1e-8, 0.1, 0.7, 1, 1};
  for (int t = 1; t <= 100; ++t) {
    if (StateCount(spec.optimizer) == 2) {
      doubles.moment1_scale = 1 / (1 - std::pow(doubles.beta1, t));
      doubles.moment2_scale = 1 / (1 - std::pow(doubles.beta2, t));
    }
    const KernelScalars scalars{.learning_rate = static_cast<float>(doubles.rate),
                                .beta1 = static_cast<float>(doubles.beta1),
                                .beta2 = static_cast<float>(doubles.beta2),
                                .eps = static_cast<float>(doubles.eps),
                                .weight_decay = static_cast<float>(doubles.decay),
                                .grad_scale = static_cast<float>(doubles.grad_scale),
                                .moment1_scale = static_cast<float>(doubles.moment1_scale),
                                .moment2_scale = static_cast<float>(doubles.moment2_scale)};
    for (std::size_t i = 0; i < kCount; ++i) {
      run.SetGradient(i, normal(random));
      Step(spec.optimizer, doubles, run.gradient(i), &exact[i]);
    }
    (*FindKernel(spec))(run.Args(scalars, {}, 0, kCount));
  }
  double error = 0, most = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    error = std::max(error, std::abs(run.parameter(i) - exact[i].p));
    most = std::max(most, std::abs(exact[i].p));
  }
  RecordProperty("error_over_limit", std::to_string(error / (1e-5 * most)));
  EXPECT_LE(error, 1e-5 * most);
}

INSTANTIATE_TEST_SUITE_P(All,
                         KernelFormulaTest,
                         ::testing::ValuesIn(kKinds),
                         [](const auto& param) { return std::string(ToString(param.param)); });

}  // namespace
}  // namespace sluice::optim
