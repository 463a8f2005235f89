#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/device/cuda/cuda_api.h"

namespace sluice::testing {

using CudaGraph = struct CudaGraphTag*;  ///< an instantiated graph

/// Work of a GPU's other users, for tests: kernels and captured graphs. A driver under test, fake
/// or real, offers it next to its CudaApi.
class CudaLab {
 public:
  virtual ~CudaLab() = default;

  virtual device::CudaApi& api() = 0;

  /// Launches a kernel that adds `value` to each byte of the span, modulo 256.
  virtual device::CudaCode LaunchAdd(std::span<std::byte> span,
                                     std::uint8_t value,
                                     device::CudaStream stream) = 0;
  /// Copies within the memory of the device.
  virtual device::CudaCode CopyWithin(std::byte* to,
                                      std::span<const std::byte> from,
                                      device::CudaStream stream) = 0;
  /// Launches a kernel that runs until Open is called with the gate; it reads no memory of the
  /// device. Gates count from 0 to 7.
  virtual device::CudaCode LaunchGate(int gate, device::CudaStream stream) = 0;
  virtual void Open(int gate) = 0;

  /// Captures the calling thread's work on the stream; `global`: as cudaStreamCaptureModeGlobal,
  /// else as cudaStreamCaptureModeThreadLocal.
  virtual device::CudaCode BeginCapture(device::CudaStream stream, bool global) = 0;
  virtual device::CudaCode EndCapture(device::CudaStream stream, CudaGraph* graph) = 0;
  virtual device::CudaCode LaunchGraph(CudaGraph graph, device::CudaStream stream) = 0;
  virtual device::CudaCode DestroyGraph(CudaGraph graph) = 0;
};

}  // namespace sluice::testing
