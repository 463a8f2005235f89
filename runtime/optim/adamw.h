#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::optim {

/// One AdamW update's scalars, all in the precision in which the kernel computes.
struct AdamWParams {
  float learning_rate = 0;
  float beta1 = 0;
  float beta2 = 0;
  float eps = 0;
  float weight_decay = 0;   ///< decoupled: p -= learning_rate * weight_decay * p
  float grad_scale = 1;     ///< multiplies every gradient first (clipping)
  float moment1_scale = 1;  ///< 1 / (1 - beta1^t)
  float moment2_scale = 1;  ///< 1 / (1 - beta2^t)
};

/// What stays the same over a run.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
};

/// The scalars of update number `update`, counted from 1; bias corrections are computed in double.
AdamWParams MakeAdamWParams(const AdamWOptions& options,
                            std::int64_t update,
                            double learning_rate,
                            double weight_decay,
                            double grad_scale);

/// Updates parameters `p` and moments `m`, `v` in place from gradients `g`, element by element:
///
///   g' = g * grad_scale
///   m  = beta1 * m + (1 - beta1) * g'
///   v  = beta2 * v + ((1 - beta2) * g') * g'
///   p  = p - learning_rate * ((m * moment1_scale) / (sqrt(v * moment2_scale) + eps)
///                             + weight_decay * p)
///
/// Every operation is rounded on its own, so the bits are the same on every SIMD target and however
/// the elements are cut into calls. REQUIRES: equal sizes. Align: 4 bytes.
void AdamWStep(const AdamWParams& params,
               std::span<float> p,
               std::span<const float> g,
               std::span<float> m,
               std::span<float> v);

/// Elements per block of SumOfSquares.
inline constexpr std::size_t kSumOfSquaresBlock = 4096;

/// The sum of squares, by blocks of kSumOfSquaresBlock elements counted from the span's start,
/// added up in index order in double: the same bits on every SIMD target.
double SumOfSquares(std::span<const float> values);

}  // namespace sluice::optim
