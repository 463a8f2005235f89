#include <algorithm>
#include <cmath>

#include "workloads/gpt/compute/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "workloads/gpt/compute/softmax.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "workloads/gpt/compute/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::gpt::HWY_NAMESPACE {

/// row[0..count) = exp(scale * row - top); returns the sum. Whole vectors may reach past `count`
/// but not past `size`: lanes beyond `count` become zero.
HWY_INLINE float ExpRow(std::size_t count, std::size_t size, float scale, float top, float* row) {
  const Full d;
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i < count && i + hn::Lanes(d) <= size; i += hn::Lanes(d)) {
    const auto x = hn::MulSub(hn::LoadU(d, row + i), hn::Set(d, scale), hn::Set(d, top));
    // exp(-87) is the last before denormal numbers; the result is zero for all that matters.
    const auto e = hn::Exp(d, hn::Min(hn::Max(x, hn::Set(d, -87.0f)), hn::Zero(d)));
    const auto kept = hn::IfThenElseZero(hn::FirstN(d, count - i), e);
    sum = hn::Add(sum, kept);
    hn::StoreU(kept, d, row + i);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  const Single one;
  for (; i < count; ++i) {
    const auto x = hn::Set(one, row[i] * scale - top);
    row[i] = hn::GetLane(hn::Exp(one, hn::Max(x, hn::Set(one, -87.0f))));
    total += row[i];
  }
  return total;
}

HWY_INLINE void Multiply(std::size_t count, float factor, float* x) {
  ForEach(count, [&](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
  });
}

void CausalSoftmax(std::size_t size, float scale, float* scores) {
  for (std::size_t i = 0; i < size; ++i) {
    float* row = scores + i * size;
    const std::size_t count = i + 1;
    const float top = scale * Max(count, row);
    const float sum = ExpRow(count, size, scale, top, row);
    Multiply(count, 1.0f / sum, row);
    std::fill(row + count, row + size, 0.0f);
  }
}

void CausalSoftmaxBackward(std::size_t size,
                           float scale,
                           const float* probabilities,
                           float* gradient) {
  for (std::size_t i = 0; i < size; ++i) {
    const float* p = probabilities + i * size;
    float* g = gradient + i * size;
    const std::size_t count = i + 1;
    const float dot = Sum(count, [&](auto d, std::size_t j) HWY_ATTR {
      return hn::Mul(hn::LoadU(d, p + j), hn::LoadU(d, g + j));
    });
    ForEach(count, [&](auto d, std::size_t j) HWY_ATTR {
      const auto centred = hn::Sub(hn::LoadU(d, g + j), hn::Set(d, dot));
      const auto scaled = hn::Mul(hn::LoadU(d, p + j), hn::Set(d, scale));
      hn::StoreU(hn::Mul(centred, scaled), d, g + j);
    });
    std::fill(g + count, g + size, 0.0f);
  }
}

double CrossEntropy(Extent extent, const std::uint8_t* targets, float grad_scale, float* logits) {
  double loss = 0;
  for (std::size_t row = 0; row < extent.rows; ++row) {
    float* x = logits + row * extent.width;
    const float top = Max(extent.width, x);
    const double target = double{x[targets[row]]} - double{top};
    const float sum = ExpRow(extent.width, extent.width, 1.0f, top, x);
    loss += std::log(double{sum}) - target;
    Multiply(extent.width, grad_scale / sum, x);
    x[targets[row]] -= grad_scale;
  }
  return loss;
}

}  // namespace sluice::gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::gpt {

HWY_EXPORT(CausalSoftmax);
HWY_EXPORT(CausalSoftmaxBackward);
HWY_EXPORT(CrossEntropy);

void CausalSoftmax(std::size_t size, float scale, float* scores) {
  HWY_DYNAMIC_DISPATCH(CausalSoftmax)(size, scale, scores);
}

void CausalSoftmaxBackward(std::size_t size, float scale, const float* probabilities, float* d) {
  HWY_DYNAMIC_DISPATCH(CausalSoftmaxBackward)(size, scale, probabilities, d);
}

double CrossEntropy(Extent extent, const std::uint8_t* targets, float grad_scale, float* logits) {
  return HWY_DYNAMIC_DISPATCH(CrossEntropy)(extent, targets, grad_scale, logits);
}

}  // namespace sluice::gpt

#endif  // HWY_ONCE
