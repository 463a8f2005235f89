#include "runtime/optim/adamw.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "tests/runtime/optim/every_target.h"
#include "tests/runtime/optim/reference_update.h"

namespace sluice::optim {
namespace {

constexpr AdamWOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};

struct State {
  std::vector<float> p, g, m, v;
};

State RandomState(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  State state;
  for (std::size_t i = 0; i < count; ++i) {
    state.p.push_back(normal(random));
    state.g.push_back(0.1f * normal(random));
    state.m.push_back(0.1f * normal(random));
    state.v.push_back(0.01f * std::abs(normal(random)));
  }
  return state;
}

void Step(const AdamWParams& params, State& s) { AdamWStep(params, s.p, s.g, s.m, s.v); }

/// The published update (Loshchilov and Hutter, 2019) in double.
struct Reference {
  double p, m = 0, v = 0;

  void Step(double g, int t, double rate, double decay) {
    m = kOptions.beta1 * m + (1 - kOptions.beta1) * g;
    v = kOptions.beta2 * v + (1 - kOptions.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(kOptions.beta1, t));
    const double v_hat = v / (1 - std::pow(kOptions.beta2, t));
    p -= rate * (m_hat / (std::sqrt(v_hat) + kOptions.eps) + decay * p);
  }
};

TEST(AdamWStep, FollowsTheFormulaInDoubleOverManySteps) {
  constexpr std::size_t kCount = 37;  // no multiple of any vector
  State s = RandomState(kCount, 7);
  std::vector<Reference> references;
  for (std::size_t i = 0; i < kCount; ++i) {
    references.push_back({.p = double{s.p[i]}});
    s.m[i] = s.v[i] = 0;
  }
  std::mt19937_64 random(8);
  std::normal_distribution<float> normal;
  for (int t = 1; t <= 50; ++t) {
    for (float& g : s.g) g = normal(random);
    Step(MakeAdamWParams(kOptions, t, 1e-2, 0.1, 0.5), s);
    for (std::size_t i = 0; i < kCount; ++i) references[i].Step(0.5 * double{s.g[i]}, t, 1e-2, 0.1);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(s.p[i], references[i].p, 2e-6 * (1 + std::abs(references[i].p))) << i;
    EXPECT_NEAR(s.m[i], references[i].m, 1e-6) << i;
    EXPECT_NEAR(s.v[i], references[i].v, 1e-6) << i;
  }
}

TEST(AdamWStep, GivesTheSameBitsOnEverySimdTargetAsInScalarCode) {
  const AdamWParams a = MakeAdamWParams(kOptions, 3, 1e-3, 0.1, 0.7);
  const State start = RandomState(1003, 11);
  State expected = start;
  ReferenceUpdate({},
                  {.scalars = a,
                   .count = expected.p.size(),
                   .parameters = expected.p.data(),
                   .gradients = expected.g.data(),
                   .states = {{.values = expected.m.data()}, {.values = expected.v.data()}}});
  OnEveryTarget([&] {
    State s = start;
    Step(a, s);
    for (std::size_t i = 0; i < s.p.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(s.p[i]), std::bit_cast<std::uint32_t>(expected.p[i]));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(s.m[i]), std::bit_cast<std::uint32_t>(expected.m[i]));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(s.v[i]), std::bit_cast<std::uint32_t>(expected.v[i]));
    }
  });
}

TEST(AdamWStep, CutAnywhereGivesTheSameBits) {
  const AdamWParams a = MakeAdamWParams(kOptions, 3, 1e-3, 0.1, 1.0);
  const State start = RandomState(100, 13);
  State whole = start;
  Step(a, whole);
  for (std::size_t cut = 0; cut <= 100; ++cut) {
    State s = start;
    const auto part = [&](std::size_t begin, std::size_t count) {
      AdamWStep(a,
                std::span(s.p).subspan(begin, count),
                std::span<const float>(s.g).subspan(begin, count),
                std::span(s.m).subspan(begin, count),
                std::span(s.v).subspan(begin, count));
    };
    part(0, cut);
    part(cut, 100 - cut);
    ASSERT_EQ(s.p, whole.p) << cut;
    ASSERT_EQ(s.m, whole.m) << cut;
    ASSERT_EQ(s.v, whole.v) << cut;
  }
}

TEST(AdamWStepDeathTest, RefusesDifferentSizes) {
  State s = RandomState(8, 1);
  s.m.pop_back();
  EXPECT_DEATH(Step(MakeAdamWParams(kOptions, 1, 1e-3, 0, 1), s), "one size");
}

TEST(SumOfSquares, MatchesDoubleAndIsTheSameOnEveryTarget) {
  for (const std::size_t count : {std::size_t{0},
                                  std::size_t{1},
                                  std::size_t{15},
                                  std::size_t{4096},
                                  std::size_t{4097},
                                  std::size_t{20011}}) {
    const std::vector<float> values = RandomState(count, 17).p;
    double expected = 0;
    for (const float x : values) expected += double{x} * double{x};
    const double sum = SumOfSquares(values);
    EXPECT_NEAR(sum, expected, 1e-6 * expected) << count;
    OnEveryTarget([&] { EXPECT_EQ(SumOfSquares(values), sum) << count; });
  }
}

TEST(SumOfSquares, AddsBlocksInIndexOrder) {
  const std::vector<float> values = RandomState(3 * kSumOfSquaresBlock + 5, 19).p;
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); i += kSumOfSquaresBlock) {
    const std::size_t count = std::min(kSumOfSquaresBlock, values.size() - i);
    sum += SumOfSquares(std::span(values).subspan(i, count));
  }
  EXPECT_EQ(SumOfSquares(values), sum);
}

}  // namespace
}  // namespace sluice::optim
