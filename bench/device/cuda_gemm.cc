#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"
#include "bench/device/gemm_kernel.h"
#include "bench/device/gemm_loop.h"
#include "fmt/format.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/driver_api.h"

namespace sluice::bench {
namespace {

/// 17 G operations a product: some milliseconds, so that the GPU is never without one.
constexpr int kSize = 2048;
constexpr std::size_t kMatrixBytes = std::size_t{kSize} * kSize * sizeof(float);

absl::Status Check(int code, const char* call) {
  if (code == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(base::ToAbsl(
      fmt::format("{}: {}", call, cudaGetErrorString(static_cast<cudaError_t>(code)))));
}

/// Two products are enqueued at any time but at the first call.
class CudaGemm : public Gemm {
 public:
  explicit CudaGemm(int ordinal) : ordinal_(ordinal) {}
  ~CudaGemm() override;
  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;

  absl::Status Prepare();
  absl::Status Run() override;

 private:
  absl::Status Enqueue();

  const int ordinal_;
  std::array<float*, 3> matrices_{};
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, 2> ends_{};  ///< ends of the last two products
  std::uint64_t enqueued_ = 0;
};

// Results are ignored: an error of the work was reported by Run.
CudaGemm::~CudaGemm() {
  cudaSetDevice(ordinal_);
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  for (cudaEvent_t end : ends_) {
    if (end != nullptr) cudaEventDestroy(end);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  for (float* matrix : matrices_) cudaFree(matrix);
}

absl::Status CudaGemm::Prepare() {
  SLUICE_RETURN_IF_ERROR(Check(cudaSetDevice(ordinal_), "cudaSetDevice"));
  for (float*& matrix : matrices_) {
    SLUICE_RETURN_IF_ERROR(
        Check(cudaMalloc(reinterpret_cast<void**>(&matrix), kMatrixBytes), "cudaMalloc"));
    SLUICE_RETURN_IF_ERROR(Check(cudaMemset(matrix, 0, kMatrixBytes), "cudaMemset"));
  }
  SLUICE_RETURN_IF_ERROR(Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                               "cudaStreamCreateWithFlags"));
  for (cudaEvent_t& end : ends_) {
    SLUICE_RETURN_IF_ERROR(
        Check(cudaEventCreateWithFlags(&end, cudaEventDisableTiming), "cudaEventCreateWithFlags"));
  }
  return Enqueue();
}

absl::Status CudaGemm::Enqueue() {
  SLUICE_RETURN_IF_ERROR(Check(LaunchGemm(matrices_[0], matrices_[1], matrices_[2], kSize, stream_),
                               "a launch of a product"));
  return Check(cudaEventRecord(ends_[enqueued_++ % ends_.size()], stream_), "cudaEventRecord");
}

absl::Status CudaGemm::Run() {
  SLUICE_RETURN_IF_ERROR(Check(cudaSetDevice(ordinal_), "cudaSetDevice"));
  SLUICE_RETURN_IF_ERROR(Enqueue());
  return Check(cudaEventSynchronize(ends_[enqueued_ % ends_.size()]), "a product");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> MakeCudaGemm(const std::string& gpu) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::CudaApi> cuda, device::LoadCudaApi());
  SLUICE_ASSIGN_OR_RETURN(const int ordinal, device::ChooseGpu(*cuda, gpu));
  auto gemm = std::make_unique<CudaGemm>(ordinal);
  SLUICE_RETURN_IF_ERROR(gemm->Prepare());
  return gemm;
}

}  // namespace sluice::bench
