#include "tools/train/files/initial_weights.h"

#include <bit>
#include <cmath>

#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

/// The value of an fp16 number that is finite.
double ValueOf(unsigned half) {
  const int exponent = static_cast<int>(half >> 10) & 0x1f;
  const int fraction = static_cast<int>(half & 0x3ffU);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000U) != 0 ? -magnitude : magnitude;
}

TEST(InitialWeightsTest, EveryFp16NumberIsItsFloat) {
  for (unsigned half = 0; half < 65536; ++half) {
    const float value = FloatOfF16(static_cast<std::uint16_t>(half));
    const bool negative = (half & 0x8000U) != 0;
    EXPECT_EQ(std::signbit(value), negative) << half;
    if ((half & 0x7c00U) == 0x7c00U) {
      EXPECT_EQ(std::isnan(value), (half & 0x3ffU) != 0) << half;
      EXPECT_EQ(std::isinf(value), (half & 0x3ffU) == 0) << half;
    } else {
      EXPECT_EQ(value, ValueOf(half)) << half;
    }
  }
}

TEST(InitialWeightsTest, EveryBf16NumberIsTheUpperHalfOfItsFloat) {
  for (unsigned half = 0; half < 65536; ++half) {
    const float value = FloatOfBf16(static_cast<std::uint16_t>(half));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), half << 16) << half;
  }
}

}  // namespace
}  // namespace sluice::tools
