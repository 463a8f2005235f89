#pragma once

#include <array>

#include "runtime/optim/kernels/code_map.h"

namespace sluice::tools {

/// Value of each code of an 8-bit state, before its block's scale multiplies it.
using CodeTable = std::array<float, 256>;

CodeTable CodeTableOf(optim::Sign sign);

}  // namespace sluice::tools
