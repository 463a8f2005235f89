#include "workloads/gpt/compute/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "hwy/targets.h"

namespace sluice::gpt {
namespace {

using Floats = std::vector<float>;

/// Runs the body on every SIMD target of this machine, on widths that fill vectors and that do not.
class Kernels : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::uint64_t kSeed = 21;

  template <typename Work>
  void OnEveryTarget(Work work) {
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      SCOPED_TRACE(testing::Message() << hwy::TargetName(target) << ", seed " << kSeed);
      work();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }

  Floats Random(std::size_t count, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    Floats values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  static void ExpectNear(const Floats& actual, const std::vector<double>& expected, double error) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], error * (1 + std::abs(expected[i]))) << i;
    }
  }

  std::mt19937_64 random_{kSeed};
  const std::size_t width_ = GetParam();
  const Extent extent_{3, width_};
};

INSTANTIATE_TEST_SUITE_P(Widths, Kernels, testing::Values(1, 5, 16, 37, 64));

double GeluInDouble(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST_P(Kernels, LayerNorm) {
  const Floats x = Random(3 * width_, 2), gain = Random(width_), bias = Random(width_);
  std::vector<double> expected;
  for (std::size_t row = 0; row < 3; ++row) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < width_; ++i) mean += double{x[row * width_ + i]} / double(width_);
    for (std::size_t i = 0; i < width_; ++i) {
      variance += std::pow(x[row * width_ + i] - mean, 2) / double(width_);
    }
    for (std::size_t i = 0; i < width_; ++i) {
      const double normalised = (x[row * width_ + i] - mean) / std::sqrt(variance + 1e-5);
      expected.push_back(normalised * gain[i] + bias[i]);
    }
  }
  OnEveryTarget([&] {
    Floats out(3 * width_, NAN);
    LayerNorm(extent_, x.data(), gain.data(), bias.data(), out.data());
    ExpectNear(out, expected, 1e-5);
  });
}

TEST_P(Kernels, BiasesResidualsAndColumnSums) {
  const Floats x = Random(3 * width_), bias = Random(width_), sums = Random(width_);
  std::vector<double> added, total(sums.begin(), sums.end());
  for (std::size_t i = 0; i < x.size(); ++i) {
    added.push_back(double{x[i]} + double{bias[i % width_]});
    total[i % width_] += double{x[i]};
  }
  OnEveryTarget([&] {
    Floats in_place = x, out(x.size(), NAN), column_sums = sums;
    AddBias(extent_, bias.data(), in_place.data());
    StartResidual(extent_, x.data(), bias.data(), out.data());
    AddColumnSums(extent_, x.data(), column_sums.data());
    ExpectNear(in_place, added, 1e-6);
    ExpectNear(out, added, 1e-6);
    ExpectNear(column_sums, total, 1e-6);
  });
}

TEST_P(Kernels, GeluAndItsDerivative) {
  Floats x = Random(3 * width_, 3);
  x[0] = 0;
  x.back() = -30;  // a number at which the exponential would overflow
  const Floats bias = Random(width_), d = Random(3 * width_);
  std::vector<double> biased, values, gradients;
  for (std::size_t i = 0; i < x.size(); ++i) {
    biased.push_back(double{x[i]} + double{bias[i % width_]});
    values.push_back(GeluInDouble(biased.back()));
    const double h = 1e-5, at = x[i];
    gradients.push_back(d[i] * (GeluInDouble(at + h) - GeluInDouble(at - h)) / (2 * h));
  }
  OnEveryTarget([&] {
    Floats in_place = x, out(x.size(), NAN), gradient = d;
    BiasGelu(extent_, bias.data(), in_place.data(), out.data());
    GeluBackward(x.size(), x.data(), gradient.data());
    ExpectNear(in_place, biased, 1e-6);
    ExpectNear(out, values, 3e-6);
    ExpectNear(gradient, gradients, 3e-6);
  });
}

TEST_P(Kernels, CausalSoftmaxAndItsBackward) {
  const std::size_t size = width_;
  const Floats scores = Random(size * size, 4), d = Random(size * size);
  const double scale = 0.3;
  std::vector<double> p(size * size, 0.0), gradients(size * size, 0.0);
  for (std::size_t i = 0; i < size; ++i) {
    double total = 0, dot = 0;
    for (std::size_t j = 0; j <= i; ++j) total += std::exp(scale * scores[i * size + j]);
    for (std::size_t j = 0; j <= i; ++j) {
      p[i * size + j] = std::exp(scale * scores[i * size + j]) / total;
      dot += p[i * size + j] * d[i * size + j];
    }
    for (std::size_t j = 0; j <= i; ++j) {
      gradients[i * size + j] = scale * p[i * size + j] * (d[i * size + j] - dot);
    }
  }
  OnEveryTarget([&] {
    Floats probabilities = scores, gradient = d;
    CausalSoftmax(size, static_cast<float>(scale), probabilities.data());
    ExpectNear(probabilities, p, 1e-6);
    CausalSoftmaxBackward(size, static_cast<float>(scale), probabilities.data(), gradient.data());
    ExpectNear(gradient, gradients, 3e-6);
  });
}

TEST_P(Kernels, CausalSoftmaxIgnoresWhatIsMaskedAndSurvivesLargeScores) {
  const std::size_t size = width_;
  Floats scores(size * size, 1e4f);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = i + 1; j < size; ++j) scores[i * size + j] = 3e38f;
  }
  OnEveryTarget([&] {
    Floats p = scores;
    CausalSoftmax(size, 1.0f, p.data());
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) {
        EXPECT_NEAR(p[i * size + j], j <= i ? 1.0 / double(i + 1) : 0.0, 1e-6);
      }
    }
  });
}

TEST_P(Kernels, CrossEntropyAndItsGradient) {
  const Floats logits = Random(3 * width_, 3);
  const std::vector<std::uint8_t> targets{
      0, static_cast<std::uint8_t>(width_ - 1), static_cast<std::uint8_t>(width_ / 2)};
  double loss = 0;
  std::vector<double> gradients;
  for (std::size_t row = 0; row < 3; ++row) {
    double total = 0;
    for (std::size_t i = 0; i < width_; ++i) total += std::exp(logits[row * width_ + i]);
    loss += std::log(total) - double{logits[row * width_ + targets[row]]};
    for (std::size_t i = 0; i < width_; ++i) {
      const double p = std::exp(double{logits[row * width_ + i]}) / total;
      gradients.push_back(0.25 * (p - (i == targets[row] ? 1.0 : 0.0)));
    }
  }
  OnEveryTarget([&] {
    Floats in_place = logits;
    EXPECT_NEAR(CrossEntropy(extent_, targets.data(), 0.25f, in_place.data()), loss, 1e-5);
    ExpectNear(in_place, gradients, 1e-6);
  });
}

TEST_P(Kernels, EmbeddingAndItsBackward) {
  const Floats tokens = Random(4 * width_), positions = Random(2 * width_), d = Random(3 * width_);
  const std::vector<std::uint8_t> ids{3, 1, 3};
  std::vector<double> x, d_tokens(4 * width_, 1.0), d_positions(2 * width_, 2.0);
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t i = 0; i < width_; ++i) {
      x.push_back(double{tokens[ids[row] * width_ + i]} + double{positions[row % 2 * width_ + i]});
      d_tokens[ids[row] * width_ + i] += double{d[row * width_ + i]};
      d_positions[row % 2 * width_ + i] += double{d[row * width_ + i]};
    }
  }
  OnEveryTarget([&] {
    Floats out(3 * width_, NAN), token_sums(4 * width_, 1.0f), position_sums(2 * width_, 2.0f);
    Embed(extent_, 2, ids.data(), tokens.data(), positions.data(), out.data());
    EmbedBackward(extent_, 2, ids.data(), d.data(), token_sums.data(), position_sums.data());
    ExpectNear(out, x, 1e-6);
    ExpectNear(token_sums, d_tokens, 1e-6);
    ExpectNear(position_sums, d_positions, 1e-6);
  });
}

}  // namespace
}  // namespace sluice::gpt
