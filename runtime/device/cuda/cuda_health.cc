#include "runtime/device/cuda/cuda_health.h"

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

/// Status code of an error after which the GPU goes on.
absl::StatusCode PassingCode(CudaCode code) {
  if (IsOfCapture(code)) return absl::StatusCode::kFailedPrecondition;
  switch (code) {
    case kCudaOutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    case kCudaNotSupported:
      return absl::StatusCode::kUnimplemented;
    case kCudaInvalidValue:
    case kCudaInvalidContext:
    case kCudaNotReady:
    case kCudaAlreadyRegistered:
    case kCudaNotRegistered:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kOk;
  }
}

}  // namespace

absl::Status CudaHealth::Describe(CudaCode code, std::string_view call) const {
  const std::string error = fmt::format("{}: {}", call, api_.ErrorName(code));
  const absl::StatusCode passing = PassingCode(code);
  if (passing != absl::StatusCode::kOk) return absl::Status(passing, error);
  return absl::UnavailableError(
      fmt::format("the GPU is lost to this process since {} (perhaps of earlier work, the "
                  "program's own kernels "
                  "included); restart the process",
                  error));
}

absl::Status CudaHealth::Check(CudaCode code, std::string_view call) {
  if (code == kCudaSuccess) return absl::OkStatus();
  absl::Status error = Describe(code, call);
  if (PassingCode(code) != absl::StatusCode::kOk) return error;
  base::MutexLock lock(mutex_);
  if (dead_.ok()) dead_ = std::move(error);
  return OwnCopy(dead_);
}

absl::Status CudaHealth::status() const {
  base::MutexLock lock(mutex_);
  return OwnCopy(dead_);
}

}  // namespace sluice::device
