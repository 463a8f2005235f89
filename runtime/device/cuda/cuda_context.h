#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/cuda/cuda_health.h"

namespace sluice::device {

/// A share of a GPU's primary context, the one that frameworks use as well. Threads: any.
class CudaContextShare {
 public:
  /// `api` and `health` outlive the share. Errors: those of CudaHealth::Check.
  static absl::StatusOr<std::unique_ptr<CudaContextShare>> Take(CudaApi& api,
                                                                CudaHealth& health,
                                                                int ordinal);
  ~CudaContextShare();
  CudaContextShare(const CudaContextShare&) = delete;
  CudaContextShare& operator=(const CudaContextShare&) = delete;

  CudaContext context() const { return context_; }
  CudaApi& api() const { return api_; }
  CudaHealth& health() const { return health_; }
  int ordinal() const { return ordinal_; }
  /// Makes a status of the result of a call.
  absl::Status Check(CudaCode code, std::string_view call) const {
    return health_.Check(code, call);
  }

 private:
  CudaContextShare(CudaApi& api, CudaHealth& health, int ordinal, CudaContext context)
      : api_(api), health_(health), ordinal_(ordinal), context_(context) {}

  CudaApi& api_;
  CudaHealth& health_;
  const int ordinal_;
  const CudaContext context_;
};

/// Makes the context current on the calling thread for a scope, and keeps its calls from breaking
/// a capture of the user's. The thread's own context and capture mode come back afterwards.
class ScopedCudaContext {
 public:
  explicit ScopedCudaContext(const CudaContextShare& share);
  ~ScopedCudaContext();
  ScopedCudaContext(const ScopedCudaContext&) = delete;
  ScopedCudaContext& operator=(const ScopedCudaContext&) = delete;

  /// The error of a context that could not be made current.
  const absl::Status& status() const { return status_; }

 private:
  /// Swaps the thread's capture mode with `mode_`.
  absl::Status Exchange();
  void Pop();

  const CudaContextShare& share_;
  CudaCaptureMode mode_ = CudaCaptureMode::kRelaxed;
  absl::Status status_;
};

}  // namespace sluice::device
