#pragma once

#include <cstddef>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// One block of a state, or its last elements, as they are kept and as fp32 values. Both arrays
/// have room for kStateBlock elements. Align: that of the types.
struct StateBlock {
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  int state = 0;  ///< number of the state, from 0
  StateType type = StateType::kFp32;
  std::size_t count = 0;
  void* kept = nullptr;
  float* scale = nullptr;  ///< scale of an 8-bit block
  float* values = nullptr;
};

/// Sets `values` to the numbers that `kept` and `scale` stand for, exactly.
void ReadStateBlock(const StateBlock& block);
/// Sets `kept` and `scale` from `values`: bf16 to nearest, ties to even; 8-bit as an update stores
/// them. `values` from `count` on are overwritten. Values of ReadStateBlock become the same bits
/// again, but for blocks with a NaN.
void WriteStateBlock(const StateBlock& block);

}  // namespace sluice::optim
