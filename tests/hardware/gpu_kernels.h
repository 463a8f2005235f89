#pragma once

#include <cstddef>
#include <cstdint>

// Kernels for the checks on a GPU. Each returns the code of its launch. `stream` is a cudaStream_t.

namespace sluice::testing {

/// Adds `value` to each byte, modulo 256.
int LaunchAddKernel(std::byte* bytes, std::uint64_t count, std::uint8_t value, void* stream);
/// Runs until the flag, in host memory that the GPU reads, is not 0.
int LaunchGateKernel(const volatile int* flag, void* stream);

}  // namespace sluice::testing
