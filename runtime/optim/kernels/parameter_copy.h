#pragma once

#include <cstddef>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// copy[i] = parameters[i] as an update that does not change them writes it: to nearest, ties to
/// even. The same bits on every SIMD target. REQUIRES: a type of copies. Align: that of the types.
struct ParameterCopy {
  CopyType type = CopyType::kBf16;
  const void* parameters = nullptr;  ///< fp32
  void* copy = nullptr;
  std::size_t count = 0;
};
void CopyParameters(const ParameterCopy& args);

}  // namespace sluice::optim
