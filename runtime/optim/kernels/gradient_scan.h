#pragma once

#include <cstddef>
#include <span>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// Elements per block of a scan.
inline constexpr std::size_t kSumOfSquaresBlock = 4096;

/// The sum of the squares of gradients as they are stored: the global norm is its root, over all
/// tensors, divided by the loss scale. It is finite exactly where every gradient is.
///
/// Gradients are taken by blocks of kSumOfSquaresBlock elements counted from the first. A block has
/// sixteen running fp32 sums: element i goes to sum i mod 16; x * x and the addition are rounded on
/// their own. These are added as (s[k] + s[k+4]) + (s[k+8] + s[k+12]) for k = 0 to 3, and those as
/// (0 + 1) + (2 + 3) in double. Elements after the last whole sixteen follow one by one in double.
/// Where the sixteens come to an infinity or a NaN, or to less than 2^-126 though one of them is
/// not 0, they are added up again in the same order, all in double. Blocks are added in index order
/// in double. The same bits on every SIMD target, and for tensors that are cut at blocks if the
/// parts' sums are added up in order one block at a time.
double SumOfSquares(GradientType type, const void* gradients, std::size_t count);

double SumOfSquares(std::span<const float> values);

}  // namespace sluice::optim
