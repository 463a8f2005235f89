#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/optim/kernels/kernel.h"
#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

/// An optimizer whose new state is a function of the gradient alone: SGD without momentum keeps it,
/// Adagrad from 0 its square.
KernelSpec SpecOf(bool is_signed) {
  return {.optimizer = is_signed ? OptimizerKind::kSgd : OptimizerKind::kAdagrad,
          .state = StateType::k8Bit};
}

float StateFrom(float gradient, bool is_signed) {
  return is_signed ? gradient : gradient * gradient;
}

TensorRun Quantise(const std::vector<float>& gradients, bool is_signed) {
  const KernelSpec spec = SpecOf(is_signed);
  TensorRun run(spec, gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) run.SetGradient(i, gradients[i]);
  (*FindKernel(spec))(run.Args({.eps = 1}, {}, 0, gradients.size()));
  return run;
}

/// The bound of docs/optimizer-kernels.md: half a step of the level, and 2^-19 of the scale for the
/// arithmetic in fp32. An unsigned state that is not 0 never becomes 0.
double Bound(double value, double scale, bool is_signed) {
  const double base = is_signed ? 8 : 16;
  const int top = is_signed ? 6 : 7;
  double end = 1;
  int level = top;
  while (level > 0 && std::abs(value) / scale <= end / base) {
    end /= base;
    --level;
  }
  const double width = level == 0 ? end : end * (1 - 1 / base);
  const double half_step = width / std::exp2(level) / (level == 0 && !is_signed ? 1 : 2);
  return scale * (half_step + 0x1p-19 * end);
}

class EightBitTest : public ::testing::TestWithParam<bool> {};

TEST_P(EightBitTest, TheErrorIsWithinTheBound) {
  constexpr std::size_t kCount = 300 * kStateBlock;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> gradients(kCount);
    // Magnitudes over twelve decades, in blocks of very different sizes.
    for (std::size_t i = 0; i < kCount; ++i) {
      const float size = std::exp2(static_cast<float>(i / kStateBlock % 60) - 30);
      gradients[i] = size * normal(random) * std::exp2(-static_cast<float>(random() % 20));
    }
    const TensorRun run = Quantise(gradients, GetParam());
    for (std::size_t i = 0; i < kCount; ++i) {
      const double value = StateFrom(gradients[i], GetParam());
      const double scale = run.scales[0][i / kStateBlock];
      ASSERT_LE(std::abs(run.state(0, i) - value), Bound(value, scale, GetParam()))
          << i << ": " << value << " in a block of " << scale;
    }
  }
}

TEST_P(EightBitTest, TheLargestOfABlockIsExactAndItsScale) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> gradients(5 * kStateBlock + 17);
  for (float& g : gradients) g = normal(random);
  const TensorRun run = Quantise(gradients, GetParam());
  for (std::size_t block = 0; block < run.scales[0].size(); ++block) {
    const std::size_t begin = block * kStateBlock;
    const std::size_t end = std::min(begin + kStateBlock, gradients.size());
    std::size_t most = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (std::abs(gradients[i]) > std::abs(gradients[most])) most = i;
    }
    const float value = StateFrom(gradients[most], GetParam());
    EXPECT_EQ(run.scales[0][block], std::abs(value));
    EXPECT_EQ(run.state(0, most), value);
  }
}

/// Each value of the map comes back as itself: a state that does not change does not drift.
TEST_P(EightBitTest, EveryCodeIsAFixedPoint) {
  const int codes = GetParam() ? 128 : 256;
  double before = -1;
  for (int code = 0; code < codes; ++code) {
    const double value = ValueOfCode(static_cast<std::uint8_t>(code), GetParam());
    EXPECT_GT(value, before);
    EXPECT_EQ(double{static_cast<float>(value)}, value) << "exact in fp32";
    EXPECT_EQ(NearestCode(static_cast<float>(value), GetParam()), code);
    before = value;
  }
  EXPECT_EQ(before, 1);
}

TEST_P(EightBitTest, ZerosStayZeroAndABlockOfThemHasNoScale) {
  std::vector<float> gradients(2 * kStateBlock, 0.0f);
  gradients.back() = 3;
  const TensorRun run = Quantise(gradients, GetParam());
  EXPECT_EQ(run.scales[0][0], 0);
  for (std::size_t i = 0; i + 1 < gradients.size(); ++i) ASSERT_EQ(run.state(0, i), 0);
  EXPECT_EQ(run.state(0, gradients.size() - 1), StateFrom(3, GetParam()));
}

TEST_P(EightBitTest, ABlockOfDenormalsBecomesZero) {
  std::vector<float> gradients(kStateBlock, GetParam() ? 0x1p-127f : 0x1p-64f);
  const TensorRun run = Quantise(gradients, GetParam());
  EXPECT_EQ(run.scales[0][0], 0);
  EXPECT_EQ(run.state(0, 0), 0);
  gradients[5] = GetParam() ? 0x1p-126f : 0x1p-63f;
  EXPECT_EQ(Quantise(gradients, GetParam()).state(0, 5), 0x1p-126f);
}

TEST_P(EightBitTest, HugeScalesWorkToo) {
  std::vector<float> gradients(kStateBlock, GetParam() ? 0x1.8p126f : 0x1p63f);
  gradients[3] = GetParam() ? -0x1.fffffep127f : 0x1.8p63f;
  const TensorRun run = Quantise(gradients, GetParam());
  const double scale = run.scales[0][0];
  for (std::size_t i = 0; i < kStateBlock; ++i) {
    const double value = StateFrom(gradients[i], GetParam());
    EXPECT_LE(std::abs(run.state(0, i) - value), Bound(value, scale, GetParam())) << i;
  }
}

TEST_P(EightBitTest, ABlockWithANanOrAnInfinityBecomesNan) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    std::vector<float> gradients(3 * kStateBlock, 1.0f);
    gradients[kStateBlock + 7] = bad;
    const TensorRun run = Quantise(gradients, GetParam());
    EXPECT_EQ(run.state(0, 0), 1);
    for (std::size_t i = kStateBlock; i < 2 * kStateBlock; ++i) {
      ASSERT_TRUE(std::isnan(run.state(0, i)));
    }
    EXPECT_EQ(run.state(0, 2 * kStateBlock), 1);
  }
}

TEST(UnsignedEightBitTest, NumbersAboveZeroNeverBecomeZero) {
  std::vector<float> gradients(kStateBlock, 1e-12f);
  gradients[0] = 1;
  gradients[1] = 0;
  const TensorRun run = Quantise(gradients, false);
  EXPECT_EQ(run.state(0, 1), 0);
  for (std::size_t i = 2; i < kStateBlock; ++i) ASSERT_EQ(run.state(0, i), 0x1p-28f);
}

INSTANTIATE_TEST_SUITE_P(Maps, EightBitTest, ::testing::Bool(), [](const auto& param) {
  return param.param ? "Signed" : "Unsigned";
});

}  // namespace
}  // namespace sluice::optim
