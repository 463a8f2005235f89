#include "tests/hardware/gpu_lab.h"

#include <cuda_runtime_api.h>

#include <array>
#include <utility>

#include "base/status.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/driver_api.h"
#include "tests/hardware/gpu_kernels.h"

namespace sluice::testing {
namespace {

using device::CudaCode;
using device::CudaStream;

cudaStream_t ToRuntime(CudaStream stream) { return reinterpret_cast<cudaStream_t>(stream); }

class GpuLab : public CudaLab {
 public:
  explicit GpuLab(std::unique_ptr<device::CudaApi> api) : api_(std::move(api)) {
    void* flags = nullptr;
    cudaHostAlloc(&flags, kGates * sizeof(int), cudaHostAllocMapped);
    flags_ = static_cast<volatile int*>(flags);
    for (std::size_t gate = 0; gate < kGates; ++gate) flags_[gate] = 0;
  }
  ~GpuLab() override {
    for (int gate = 0; gate < static_cast<int>(kGates); ++gate) Open(gate);
    cudaFreeHost(const_cast<int*>(flags_));
  }

  device::CudaApi& api() override { return *api_; }
  CudaCode LaunchAdd(std::span<std::byte> span, std::uint8_t value, CudaStream stream) override {
    return LaunchAddKernel(span.data(), span.size(), value, ToRuntime(stream));
  }
  CudaCode CopyWithin(std::byte* to, std::span<const std::byte> from, CudaStream stream) override {
    return cudaMemcpyAsync(
        to, from.data(), from.size(), cudaMemcpyDeviceToDevice, ToRuntime(stream));
  }
  CudaCode LaunchGate(int gate, CudaStream stream) override {
    return LaunchGateKernel(flags_ + gate, ToRuntime(stream));
  }
  void Open(int gate) override { flags_[gate] = 1; }

  CudaCode BeginCapture(CudaStream stream, bool global) override {
    return cudaStreamBeginCapture(
        ToRuntime(stream), global ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeThreadLocal);
  }
  CudaCode EndCapture(CudaStream stream, CudaGraph* graph) override {
    cudaGraph_t captured = nullptr;
    if (const cudaError_t error = cudaStreamEndCapture(ToRuntime(stream), &captured)) return error;
    cudaGraphExec_t ready = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&ready, captured, 0);
    cudaGraphDestroy(captured);
    *graph = reinterpret_cast<CudaGraph>(ready);
    return error;
  }
  CudaCode LaunchGraph(CudaGraph graph, CudaStream stream) override {
    return cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(graph), ToRuntime(stream));
  }
  CudaCode DestroyGraph(CudaGraph graph) override {
    return cudaGraphExecDestroy(reinterpret_cast<cudaGraphExec_t>(graph));
  }

 private:
  static constexpr std::size_t kGates = 8;

  const std::unique_ptr<device::CudaApi> api_;
  volatile int* flags_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaLab>> MakeGpuLab() {
  SLUICE_ASSIGN_OR_RETURN(auto api, device::LoadCudaApi());
  SLUICE_RETURN_IF_ERROR(device::ChooseGpu(*api, "").status());
  return std::make_unique<GpuLab>(std::move(api));
}

}  // namespace sluice::testing
