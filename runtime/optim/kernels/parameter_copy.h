#pragma once

#include <cstddef>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// Copies of parameters: copy[i] = parameters[i], rounded to nearest and ties to even, as an update
/// writes it. The bits are the same on every SIMD target. REQUIRES: a type of copies. Align: that
/// of the types.
struct ParameterCopy {
  CopyType type = CopyType::kBf16;
  const void* parameters = nullptr;  ///< fp32
  void* copy = nullptr;
  std::size_t count = 0;
};
void CopyParameters(const ParameterCopy& args);

}  // namespace sluice::optim
