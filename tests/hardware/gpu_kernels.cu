#include <cuda_runtime.h>

#include "tests/hardware/gpu_kernels.h"

namespace sluice::testing {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 512;

__global__ void Add(unsigned char* bytes, unsigned long long count, unsigned char value) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    bytes[i] = static_cast<unsigned char>(bytes[i] + value);
  }
}

__global__ void Gate(const volatile int* flag) {
  while (*flag == 0) __nanosleep(1000);
}

}  // namespace

int LaunchAddKernel(std::byte* bytes, std::uint64_t count, std::uint8_t value, void* stream) {
  Add<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<unsigned char*>(bytes), count, value);
  return cudaGetLastError();
}

int LaunchGateKernel(const volatile int* flag, void* stream) {
  Gate<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(flag);
  return cudaGetLastError();
}

}  // namespace sluice::testing
