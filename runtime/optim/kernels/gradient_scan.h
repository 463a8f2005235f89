#pragma once

#include <cstddef>
#include <span>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// Elements per block of a scan.
inline constexpr std::size_t kSumOfSquaresBlock = 4096;

/// Sum of the squares of gradients as they are stored. The global norm is the root of the sum over
/// all tensors, divided by the loss scale. The sum is finite exactly if every gradient is.
///
/// Gradients are taken by blocks of kSumOfSquaresBlock elements counted from the first. A block has
/// sixteen running fp32 sums: element i goes to sum i mod 16. Squares and additions are each
/// rounded on their own. The sums are added as (s[k] + s[k+4]) + (s[k+8] + s[k+12]) for k = 0 to 3,
/// and these four as (0 + 1) + (2 + 3) in double. Elements after the last whole sixteen follow one
/// by one in double.
///
/// The sixteens may come to an infinity or a NaN, or to less than 2^-126 though one of them is not
/// 0. They are then added up again in the same order, all in double. Blocks are added in index
/// order in double.
///
/// The bits are the same on every SIMD target. They are also the same for tensors that are cut at
/// blocks, if the parts' sums are added up in order one block at a time.
double SumOfSquares(GradientType type, const void* gradients, std::size_t count);

double SumOfSquares(std::span<const float> values);

}  // namespace sluice::optim
