#include <cuda_runtime.h>

#include "bench/device/gemm_kernel.h"

namespace sluice::bench {
namespace {

constexpr int kTile = 16;

/// One element of the result a thread. A block holds a tile of each factor in shared memory.
__global__ void Multiply(const float* a, const float* b, float* out, int size) {
  __shared__ float rows[kTile][kTile];
  __shared__ float columns[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int first = 0; first < size; first += kTile) {
    rows[threadIdx.y][threadIdx.x] = a[row * size + first + threadIdx.x];
    columns[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * size + column];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += rows[threadIdx.y][i] * columns[i][threadIdx.x];
    __syncthreads();
  }
  out[row * size + column] = sum;
}

}  // namespace

int LaunchGemm(const float* a, const float* b, float* out, int size, void* stream) {
  const dim3 blocks(size / kTile, size / kTile);
  Multiply<<<blocks, dim3(kTile, kTile), 0, static_cast<cudaStream_t>(stream)>>>(a, b, out, size);
  return cudaGetLastError();
}

}  // namespace sluice::bench
