#pragma once

#include <cstddef>
#include <cstdint>

/// The vectorised kernels between the matrix products. Matrices are row-major and dense, fp32.
/// Results are deterministic: the order of every sum depends on the shapes and the SIMD target
/// only, never on addresses. Threads: reentrant.

namespace sluice::gpt {

/// A dense matrix's extent.
struct Extent {
  std::size_t rows = 0;
  std::size_t width = 0;
};

/// Number that layer normalisation adds to the variance.
inline constexpr float kLayerNormEps = 1e-5f;

/// out = (x - mean) / sqrt(var + eps) * gain + bias, row by row.
void LayerNorm(Extent extent, const float* x, const float* gain, const float* bias, float* out);

/// The gradients of LayerNorm. They are added to the values that the three outputs hold.
struct LayerNormGradients {
  float* x = nullptr;
  float* gain = nullptr;
  float* bias = nullptr;
};
void LayerNormBackward(Extent extent,
                       const float* x,
                       const float* gain,
                       const float* d_out,
                       const LayerNormGradients& gradients);

/// x += bias, row by row.
void AddBias(Extent extent, const float* bias, float* x);
/// out = residual + bias, row by row, to which a product is then added.
void StartResidual(Extent extent, const float* residual, const float* bias, float* out);
/// sums += the sums of each column of x, rows in order.
void AddColumnSums(Extent extent, const float* x, float* sums);

/// x += bias; out = gelu(x) (tanh form).
void BiasGelu(Extent extent, const float* bias, float* x, float* out);
/// d *= gelu'(x).
void GeluBackward(std::size_t count, const float* x, float* d);

/// Turns a [size, size] matrix of scores into causal attention probabilities in place: row i is the
/// softmax of scale * scores over columns 0..i, and zero after them.
void CausalSoftmax(std::size_t size, float scale, float* scores);
/// Turns the gradient of CausalSoftmax's result into that of its input, in place.
void CausalSoftmaxBackward(std::size_t size, float scale, const float* probabilities, float* d);

/// Replaces logits by the gradient of grad_scale * (sum of the rows' cross-entropies); returns that
/// sum without the scale, in nats.
double CrossEntropy(Extent extent, const std::uint8_t* targets, float grad_scale, float* logits);

/// x[row] = tokens[tokens_of_row] + positions[row % context].
void Embed(Extent extent,
           std::size_t context,
           const std::uint8_t* ids,
           const float* tokens,
           const float* positions,
           float* x);
/// Adds the rows of d to the rows of both tables' gradients, in order.
void EmbedBackward(Extent extent,
                   std::size_t context,
                   const std::uint8_t* ids,
                   const float* d,
                   float* d_tokens,
                   float* d_positions);

}  // namespace sluice::gpt
