#pragma once

#include <cstdint>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// Update of docs/optimizer-kernels.md, element by element, in plain scalar code that shares none
/// with the kernels. Returns the result of a Kernel.
bool ReferenceUpdate(const KernelSpec& spec, const KernelArgs& args);

/// The 16 random bits for one number of the element, which is rounded after `before` others.
std::uint32_t ReferenceBits(const RoundingKey& key, std::uint64_t element, int before);
/// Conversions of the reference.
float FromBf16(std::uint16_t bits);
float FromFp16(std::uint16_t bits);
std::uint16_t NearestBf16(float value);
std::uint16_t NearestFp16(float value);
std::uint16_t StochasticBf16(float value, std::uint32_t random);

/// Value of a code without its sign, in a block whose largest magnitude is 1.
double ValueOfCode(std::uint8_t code, bool is_signed);
std::uint8_t NearestCode(float ratio, bool is_signed);
/// Whether a state can be negative.
bool IsSigned(OptimizerKind kind, int state);

}  // namespace sluice::optim
