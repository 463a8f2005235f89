#include "runtime/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/optim/adamw.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The update of Lanes(d) elements from index `i` on.
template <class D>
HWY_INLINE void UpdateVector(
    D d, const AdamWParams& a, std::size_t i, float* p, const float* g, float* m, float* v) {
  const auto grad = hn::Mul(hn::LoadU(d, g + i), hn::Set(d, a.grad_scale));
  const auto m1 = hn::Add(hn::Mul(hn::Set(d, a.beta1), hn::LoadU(d, m + i)),
                          hn::Mul(hn::Set(d, 1.0f - a.beta1), grad));
  const auto v1 = hn::Add(hn::Mul(hn::Set(d, a.beta2), hn::LoadU(d, v + i)),
                          hn::Mul(hn::Mul(hn::Set(d, 1.0f - a.beta2), grad), grad));
  const auto root = hn::Sqrt(hn::Mul(v1, hn::Set(d, a.moment2_scale)));
  const auto step =
      hn::Div(hn::Mul(m1, hn::Set(d, a.moment1_scale)), hn::Add(root, hn::Set(d, a.eps)));
  const auto old = hn::LoadU(d, p + i);
  const auto decayed = hn::Add(step, hn::Mul(hn::Set(d, a.weight_decay), old));
  hn::StoreU(hn::Sub(old, hn::Mul(hn::Set(d, a.learning_rate), decayed)), d, p + i);
  hn::StoreU(m1, d, m + i);
  hn::StoreU(v1, d, v + i);
}

void Update(const AdamWParams& a, std::size_t count, float* p, const float* g, float* m, float* v) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) UpdateVector(d, a, i, p, g, m, v);
  for (; i < count; ++i) UpdateVector(one, a, i, p, g, m, v);
}

/// Adds the squares of 16 k values to sixteen running sums (whatever the width of the target, so
/// that the order of additions is fixed), and those by fours into `lanes`.
void SquaresOfSixteens(const float* values, std::size_t count, float* lanes) {
#if HWY_TARGET == HWY_SCALAR
  float sums[16] = {};
  for (std::size_t i = 0; i < count; ++i) sums[i % 16] += values[i] * values[i];
  for (std::size_t i = 0; i < 4; ++i) {
    lanes[i] = (sums[i] + sums[i + 4]) + (sums[i + 8] + sums[i + 12]);
  }
#else
  const hn::FixedTag<float, 4> d;
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += 16) {
    const auto x0 = hn::LoadU(d, values + i);
    const auto x1 = hn::LoadU(d, values + i + 4);
    const auto x2 = hn::LoadU(d, values + i + 8);
    const auto x3 = hn::LoadU(d, values + i + 12);
    sum0 = hn::Add(sum0, hn::Mul(x0, x0));
    sum1 = hn::Add(sum1, hn::Mul(x1, x1));
    sum2 = hn::Add(sum2, hn::Mul(x2, x2));
    sum3 = hn::Add(sum3, hn::Mul(x3, x3));
  }
  hn::StoreU(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)), d, lanes);
#endif
}

double BlockSumOfSquares(const float* values, std::size_t count) {
  const std::size_t sixteens = count / 16 * 16;
  float lanes[4];
  SquaresOfSixteens(values, sixteens, lanes);
  double total = (double{lanes[0]} + double{lanes[1]}) + (double{lanes[2]} + double{lanes[3]});
  for (std::size_t i = sixteens; i < count; ++i) total += double{values[i]} * double{values[i]};
  return total;
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "base/check.h"

namespace sluice::optim {

HWY_EXPORT(Update);
HWY_EXPORT(BlockSumOfSquares);

AdamWParams MakeAdamWParams(const AdamWOptions& options,
                            std::int64_t update,
                            double learning_rate,
                            double weight_decay,
                            double grad_scale) {
  const auto t = static_cast<double>(update);
  return {.learning_rate = static_cast<float>(learning_rate),
          .beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .eps = static_cast<float>(options.eps),
          .weight_decay = static_cast<float>(weight_decay),
          .grad_scale = static_cast<float>(grad_scale),
          .moment1_scale = static_cast<float>(1.0 / (1.0 - std::pow(options.beta1, t))),
          .moment2_scale = static_cast<float>(1.0 / (1.0 - std::pow(options.beta2, t)))};
}

void AdamWStep(const AdamWParams& params,
               std::span<float> p,
               std::span<const float> g,
               std::span<float> m,
               std::span<float> v) {
  SLUICE_CHECK(p.size() == g.size() && p.size() == m.size() && p.size() == v.size(),
               "parameters, gradients and moments have one size");
  HWY_DYNAMIC_DISPATCH(Update)(params, p.size(), p.data(), g.data(), m.data(), v.data());
}

double SumOfSquares(std::span<const float> values) {
  double sum = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kSumOfSquaresBlock) {
    const std::size_t count = std::min(kSumOfSquaresBlock, values.size() - begin);
    sum += HWY_DYNAMIC_DISPATCH(BlockSumOfSquares)(values.data() + begin, count);
  }
  return sum;
}

}  // namespace sluice::optim

#endif  // HWY_ONCE
