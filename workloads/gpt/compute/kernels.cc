#include "workloads/gpt/compute/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "workloads/gpt/compute/kernels.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "workloads/gpt/compute/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::gpt::HWY_NAMESPACE {

struct RowMoments {
  float mean;
  float inverse_deviation;
};

HWY_INLINE RowMoments MomentsOf(std::size_t width, const float* x) {
  const auto inverse_width = 1.0f / static_cast<float>(width);
  const float mean =
      Sum(width, [&](auto d, std::size_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) *
      inverse_width;
  const float variance = inverse_width * Sum(width, [&](auto d, std::size_t i) HWY_ATTR {
                           const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
                           return hn::Mul(centred, centred);
                         });
  return {mean, 1.0f / std::sqrt(variance + kLayerNormEps)};
}

template <class D>
HWY_INLINE auto Normalised(D d, const RowMoments& moments, const float* x) {
  return hn::Mul(hn::Sub(hn::LoadU(d, x), hn::Set(d, moments.mean)),
                 hn::Set(d, moments.inverse_deviation));
}

void LayerNorm(Extent extent, const float* x, const float* gain, const float* bias, float* out) {
  for (std::size_t row = 0; row < extent.rows; ++row) {
    const float* x_row = x + row * extent.width;
    float* out_row = out + row * extent.width;
    const RowMoments moments = MomentsOf(extent.width, x_row);
    ForEach(extent.width, [&](auto d, std::size_t i) HWY_ATTR {
      const auto y = hn::MulAdd(
          Normalised(d, moments, x_row + i), hn::LoadU(d, gain + i), hn::LoadU(d, bias + i));
      hn::StoreU(y, d, out_row + i);
    });
  }
}

/// One row: with n the normalised x and e = d_out * gain, dx = (e - mean(e) - n mean(e n)) / dev.
HWY_INLINE void LayerNormBackwardRow(std::size_t width,
                                     const float* x,
                                     const float* gain,
                                     const float* d_out,
                                     const LayerNormGradients& gradients) {
  const RowMoments moments = MomentsOf(width, x);
  const float inverse_width = 1.0f / static_cast<float>(width);
  const auto scaled = [&](auto d, std::size_t i) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, d_out + i), hn::LoadU(d, gain + i));
  };
  const float mean = inverse_width * Sum(width, scaled);
  const float mean_product = inverse_width * Sum(width, [&](auto d, std::size_t i) HWY_ATTR {
                               return hn::Mul(scaled(d, i), Normalised(d, moments, x + i));
                             });
  ForEach(width, [&](auto d, std::size_t i) HWY_ATTR {
    const auto normalised = Normalised(d, moments, x + i);
    const auto incoming = hn::LoadU(d, d_out + i);
    const auto centred = hn::Sub(scaled(d, i), hn::Set(d, mean));
    const auto dx = hn::NegMulAdd(normalised, hn::Set(d, mean_product), centred);
    hn::StoreU(hn::MulAdd(dx, hn::Set(d, moments.inverse_deviation), hn::LoadU(d, gradients.x + i)),
               d,
               gradients.x + i);
    hn::StoreU(
        hn::MulAdd(incoming, normalised, hn::LoadU(d, gradients.gain + i)), d, gradients.gain + i);
    hn::StoreU(hn::Add(incoming, hn::LoadU(d, gradients.bias + i)), d, gradients.bias + i);
  });
}

void LayerNormBackward(Extent extent,
                       const float* x,
                       const float* gain,
                       const float* d_out,
                       const LayerNormGradients& gradients) {
  LayerNormGradients row_gradients = gradients;
  for (std::size_t row = 0; row < extent.rows; ++row) {
    row_gradients.x = gradients.x + row * extent.width;
    LayerNormBackwardRow(
        extent.width, x + row * extent.width, gain, d_out + row * extent.width, row_gradients);
  }
}

void AddBias(Extent extent, const float* bias, float* x) {
  for (std::size_t row = 0; row < extent.rows; ++row, x += extent.width) {
    ForEach(extent.width, [&](auto d, std::size_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, bias + i)), d, x + i);
    });
  }
}

void StartResidual(Extent extent, const float* residual, const float* bias, float* out) {
  for (std::size_t row = 0; row < extent.rows; ++row) {
    ForEach(extent.width, [&](auto d, std::size_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, residual + i), hn::LoadU(d, bias + i)), d, out + i);
    });
    residual += extent.width;
    out += extent.width;
  }
}

void AddColumnSums(Extent extent, const float* x, float* sums) {
  for (std::size_t row = 0; row < extent.rows; ++row, x += extent.width) {
    ForEach(extent.width, [&](auto d, std::size_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, x + i)), d, sums + i);
    });
  }
}

// gelu(x) = x * sigmoid(2u) with u = a (x + b x^3), which is 0.5 x (1 + tanh(u)).
constexpr float kGeluA = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluB = 0.044715f;

template <class D, class V>
HWY_INLINE V SigmoidOfTwiceU(D d, V x) {
  const auto square = hn::Mul(x, x);
  const auto inner = hn::MulAdd(hn::Set(d, kGeluA * kGeluB), square, hn::Set(d, kGeluA));
  const auto minus_two_u = hn::Mul(hn::Mul(x, inner), hn::Set(d, -2.0f));
  // Beyond +-80 the sigmoid is 0 or 1 in fp32, and exp would overflow.
  const auto clamped = hn::Min(hn::Max(minus_two_u, hn::Set(d, -80.0f)), hn::Set(d, 80.0f));
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, clamped)));
}

void BiasGelu(Extent extent, const float* bias, float* x, float* out) {
  for (std::size_t row = 0; row < extent.rows; ++row) {
    ForEach(extent.width, [&](auto d, std::size_t i) HWY_ATTR {
      const auto value = hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, bias + i));
      hn::StoreU(value, d, x + i);
      hn::StoreU(hn::Mul(value, SigmoidOfTwiceU(d, value)), d, out + i);
    });
    x += extent.width;
    out += extent.width;
  }
}

void GeluBackward(std::size_t count, const float* x, float* gradient) {
  ForEach(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    const auto s = SigmoidOfTwiceU(d, value);
    // u' = a (1 + 3 b x^2), gelu' = s + x s (1 - s) 2 u'
    const auto slope = hn::MulAdd(
        hn::Set(d, 6.0f * kGeluA * kGeluB), hn::Mul(value, value), hn::Set(d, 2.0f * kGeluA));
    const auto bell = hn::Mul(s, hn::Sub(hn::Set(d, 1.0f), s));
    const auto derivative = hn::MulAdd(hn::Mul(value, bell), slope, s);
    hn::StoreU(hn::Mul(derivative, hn::LoadU(d, gradient + i)), d, gradient + i);
  });
}

void AddRow(std::size_t width, const float* a, const float* b, float* out) {
  ForEach(width, [&](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  });
}

}  // namespace sluice::gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::gpt {

HWY_EXPORT(LayerNorm);
HWY_EXPORT(LayerNormBackward);
HWY_EXPORT(AddBias);
HWY_EXPORT(StartResidual);
HWY_EXPORT(AddColumnSums);
HWY_EXPORT(BiasGelu);
HWY_EXPORT(GeluBackward);
HWY_EXPORT(AddRow);

void LayerNorm(Extent extent, const float* x, const float* gain, const float* bias, float* out) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(extent, x, gain, bias, out);
}

void LayerNormBackward(Extent extent,
                       const float* x,
                       const float* gain,
                       const float* d_out,
                       const LayerNormGradients& gradients) {
  HWY_DYNAMIC_DISPATCH(LayerNormBackward)(extent, x, gain, d_out, gradients);
}

void AddBias(Extent extent, const float* bias, float* x) {
  HWY_DYNAMIC_DISPATCH(AddBias)(extent, bias, x);
}

void StartResidual(Extent extent, const float* residual, const float* bias, float* out) {
  HWY_DYNAMIC_DISPATCH(StartResidual)(extent, residual, bias, out);
}

void AddColumnSums(Extent extent, const float* x, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddColumnSums)(extent, x, sums);
}

void BiasGelu(Extent extent, const float* bias, float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(BiasGelu)(extent, bias, x, out);
}

void GeluBackward(std::size_t count, const float* x, float* d) {
  HWY_DYNAMIC_DISPATCH(GeluBackward)(count, x, d);
}

void Embed(Extent extent,
           std::size_t context,
           const std::uint8_t* ids,
           const float* tokens,
           const float* positions,
           float* x) {
  for (std::size_t row = 0; row < extent.rows; ++row) {
    const float* token = tokens + ids[row] * extent.width;
    const float* position = positions + row % context * extent.width;
    HWY_DYNAMIC_DISPATCH(AddRow)(extent.width, token, position, x + row * extent.width);
  }
}

void EmbedBackward(Extent extent,
                   std::size_t context,
                   const std::uint8_t* ids,
                   const float* d,
                   float* d_tokens,
                   float* d_positions) {
  for (std::size_t row = 0; row < extent.rows; ++row) {
    const float* d_row = d + row * extent.width;
    float* token = d_tokens + ids[row] * extent.width;
    float* position = d_positions + row % context * extent.width;
    HWY_DYNAMIC_DISPATCH(AddRow)(extent.width, token, d_row, token);
    HWY_DYNAMIC_DISPATCH(AddRow)(extent.width, position, d_row, position);
  }
}

}  // namespace sluice::gpt

#endif  // HWY_ONCE
