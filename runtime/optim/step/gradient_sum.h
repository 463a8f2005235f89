#pragma once

#include <cstddef>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// Sum of gradients: sum[i] = first ? x[i] : sum[i] + x[i] in fp32, then rounded to the type of the
/// sum: fp32, or bf16 to nearest and ties to even. The bits are the same on every SIMD target.
/// REQUIRES: a sum in fp32 or bf16. Align: that of the types.
struct GradientSum {
  GradientType sum_type = GradientType::kFp32;
  void* sum = nullptr;
  GradientType type = GradientType::kFp32;
  const void* gradients = nullptr;
  std::size_t count = 0;
  bool first = false;
};
void AddGradients(const GradientSum& args);

}  // namespace sluice::optim
