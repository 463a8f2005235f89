#include "runtime/device/cuda/cuda_health.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace sluice::device {
namespace {

bool IsOfCapture(CudaCode code) {
  return code >= kCudaCaptureUnsupported && code <= kCudaCaptureUnsupported + 8;
}

/// A status that shares nothing with `status`: absl counts references inside its library, where
/// ThreadSanitizer does not see it.
absl::Status OwnCopy(const absl::Status& status) {
  return status.ok() ? absl::OkStatus() : absl::Status(status.code(), status.message());
}

/// Errors after which the driver answers this process no more, with its numbers (CUresult): CUDA's
/// documentation asks for a new process, or an uncorrectable fault of the hardware is behind it.
constexpr std::array<CudaCode, 20> kLastingCodes = {
    3,  // not initialised
    kCudaDeinitialized,
    214,  // an uncorrectable fault of the GPU's memory
    220,  // an uncorrectable fault of NVLink
    226,  // a contained fault of memory
    kCudaIllegalAddress,
    702,  // a kernel ran for too long
    709,  // the context is destroyed
    710,  // an assertion of a kernel
    714,  // the hardware's stack
    715,  // an illegal instruction
    716,  // a misaligned address
    717,  // a wrong address space
    718,  // an invalid program counter
    719,  // a kernel failed
    721,  // tensor memory was not freed
    806,  // the server that shares the GPU does not answer
    810,  // it ended this process's share
    911,  // a fault of another device
    999,  // unknown
};

bool IsLasting(CudaCode code) {
  return std::find(kLastingCodes.begin(), kLastingCodes.end(), code) != kLastingCodes.end();
}

/// Status code of an error after which the GPU goes on.
absl::StatusCode PassingCode(CudaCode code) {
  if (IsOfCapture(code)) return absl::StatusCode::kFailedPrecondition;
  switch (code) {
    case kCudaOutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    case kCudaNotSupported:
      return absl::StatusCode::kUnimplemented;
    case kCudaInvalidHandle:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status CudaHealth::Describe(CudaCode code, std::string_view call) const {
  const std::string error = fmt::format("{}: {}", call, api_.ErrorName(code));
  if (!IsLasting(code)) return absl::Status(PassingCode(code), error);
  return absl::UnavailableError(
      fmt::format("the GPU is lost to this process since {} (perhaps of earlier work, the "
                  "program's own kernels "
                  "included); restart the process",
                  error));
}

absl::Status CudaHealth::Check(CudaCode code, std::string_view call) {
  if (code == kCudaSuccess) return absl::OkStatus();
  absl::Status error = Describe(code, call);
  if (!IsLasting(code)) return error;
  base::MutexLock lock(mutex_);
  if (dead_.ok()) dead_ = std::move(error);
  return OwnCopy(dead_);
}

absl::Status CudaHealth::status() const {
  base::MutexLock lock(mutex_);
  return OwnCopy(dead_);
}

}  // namespace sluice::device
