#pragma once

#include <cstddef>
#include <span>

#include "runtime/optim/kernel.h"

namespace sluice::optim {

/// Elements per block of a scan.
inline constexpr std::size_t kSumOfSquaresBlock = 4096;

struct GradientScan {
  /// Of the gradients as they are stored: the global norm is its root, over all tensors, divided by
  /// the loss scale. Infinite when a square exceeds fp32, though the gradients may be finite.
  double sum_of_squares = 0;
  /// Whether every gradient is.
  bool finite = true;
};

/// Scans gradients by blocks of kSumOfSquaresBlock elements counted from the first; the blocks'
/// sums are added up in index order in double. The same bits on every SIMD target, and for tensors
/// that are cut at blocks if the parts' sums are added up in order one block at a time.
GradientScan ScanGradients(GradientType type, const void* gradients, std::size_t count);

double SumOfSquares(std::span<const float> values);

}  // namespace sluice::optim
