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
/// Gradients are taken by blocks of kSumOfSquaresBlock elements counted from the first. A block is
/// summed in fp32, and again in double where fp32 has no room for its sum; the blocks' sums are
/// added up in index order in double. The same bits on every SIMD target, and for tensors that are
/// cut at blocks if the parts' sums are added up in order one block at a time.
double SumOfSquares(GradientType type, const void* gradients, std::size_t count);

double SumOfSquares(std::span<const float> values);

}  // namespace sluice::optim
