#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/runtime/optim/sums_test.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"
#include "runtime/optim/sums-inl.h"
#include "tests/runtime/optim/every_target.h"

#ifndef SLUICE_TESTS_SUMS_TEST_ONCE_
#define SLUICE_TESTS_SUMS_TEST_ONCE_

namespace sluice::optim {

/// Of three numbers of each row: a * b + c rounded once, a * b - (a * b as fp32), and what is left
/// of c + a * b.
struct Columns {
  std::vector<float> a, b, c;
  std::vector<float> sums, rests, left;

  void Add(float x, float y, float z) {
    a.push_back(x);
    b.push_back(y);
    c.push_back(z);
  }
};

}  // namespace sluice::optim

#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

template <class D>
void FillWith(D d, Columns& t) {
  t.sums.assign(t.a.size(), 0);
  t.rests.assign(t.a.size(), 0);
  t.left.assign(t.a.size(), 0);
  for (std::size_t i = 0; i + hn::Lanes(d) <= t.a.size(); i += hn::Lanes(d)) {
    const auto a = hn::LoadU(d, &t.a[i]), b = hn::LoadU(d, &t.b[i]), c = hn::LoadU(d, &t.c[i]);
    hn::StoreU(MulAddOnce(d, a, b, c), d, &t.sums[i]);
    hn::StoreU(ProductMinus(d, a, b, hn::Mul(a, b)), d, &t.rests[i]);
    hn::StoreU(AddProduct(d, c, a, b).rest, d, &t.left[i]);
  }
}

void Fill(bool one_lane, Columns& t) {
  if (one_lane) return FillWith(hn::CappedTag<float, 1>(), t);
  FillWith(hn::CappedTag<float, 16>(), t);
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::optim {
namespace {

HWY_EXPORT(Fill);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

bool AreSame(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
}

float LeftOf(float c, float a, float b) {
  const float value = c + a * b;
  const float of_product = value - c;
  return (c - (value - of_product)) + std::fma(a, b, -of_product);
}

void CheckRows(const Columns& t) {
  for (std::size_t i = 0; i < t.a.size(); ++i) {
    const float a = t.a[i], b = t.b[i], c = t.c[i];
    ASSERT_TRUE(AreSame(t.sums[i], std::fma(a, b, c)))
        << std::hexfloat << a << " * " << b << " + " << c << " is not " << t.sums[i];
    ASSERT_TRUE(AreSame(t.rests[i], std::fma(a, b, -(a * b))))
        << std::hexfloat << t.rests[i] << " is not left of " << a << " * " << b;
    ASSERT_TRUE(AreSame(t.left[i], LeftOf(c, a, b)))
        << std::hexfloat << t.left[i] << " is not left of " << c << " + " << a << " * " << b;
  }
}

/// On every target of this processor, in whole vectors and one by one.
void ExpectLikeFma(Columns t) {
  while (t.a.size() % 16 != 0) t.Add(0, 0, 0);
  OnEveryTarget([&] {
    for (const bool one_lane : {false, true}) {
      HWY_DYNAMIC_DISPATCH(Fill)(one_lane, t);
      CheckRows(t);
    }
  });
}

TEST(SumsTest, ProductsOfAnySizeAreAddedAndRoundedOnce) {
  constexpr std::uint64_t kSeed = 61;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-60, 60);
  Columns rows;
  for (int i = 0; i < 200000; ++i) {
    const float a = std::ldexp(normal(random), exponent(random) / 2);
    const float b = std::ldexp(normal(random), exponent(random) / 2);
    rows.Add(a, b, std::ldexp(normal(random) * a * b, exponent(random) / 2));
    rows.Add(a, b, -(a * b) * (1 + std::ldexp(normal(random), -20)));        // nearly cancelled
    rows.Add(a * 0x1p-70f, b * 0x1p-70f, std::ldexp(normal(random), -140));  // denormal
  }
  ExpectLikeFma(rows);
}

/// Sums beside the middle between two numbers of fp32 by so little that double does not show it:
/// rounded to double first they would be that middle, and then rounded to the even neighbour.
TEST(SumsTest, NothingIsRoundedTwice) {
  Columns rows;
  for (int scale = -60; scale <= 60; scale += 3) {
    const float unit = std::ldexp(1.0f, scale);
    // (1 + 2^-23) * (1 - 2^-23) is 1 - 2^-46.
    for (const float sign : {1.0f, -1.0f}) {
      const float a = (1 + 0x1p-23f) * 0x1p-24f * unit, b = sign * (1 - 0x1p-23f);
      for (const int odd : {1, 3, 5, 0x7ffff1}) {
        rows.Add(a, b, (1 + static_cast<float>(odd) * 0x1p-23f) * unit);
        rows.Add(a, b, -(1 + static_cast<float>(odd) * 0x1p-23f) * unit);
      }
    }
  }
  ExpectLikeFma(rows);
}

TEST(SumsTest, DenormalsOverflowAndNumbersThatAreNone) {
  Columns rows;
  const float special[] = {0.0f,
                           -0.0f,
                           1.0f,
                           -1.0f,
                           kLeast,
                           -kLeast,
                           0x1p-126f,
                           0x1p-100f,
                           3e38f,
                           -3e38f,
                           kInfinity,
                           -kInfinity,
                           NAN,
                           0x1.fffffep127f};
  for (const float a : special) {
    for (const float b : special) {
      for (const float c : special) rows.Add(a, b, c);
    }
  }
  ExpectLikeFma(rows);
}

}  // namespace
}  // namespace sluice::optim

#endif  // HWY_ONCE
