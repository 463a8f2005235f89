#pragma once

namespace sluice::bench {

/// Enqueues out = a b on a stream of the CUDA runtime (cudaStream_t). The matrices are square, in
/// the GPU's memory, and `size` is a multiple of 16. Returns the runtime's error code.
int LaunchGemm(const float* a, const float* b, float* out, int size, void* stream);

}  // namespace sluice::bench
