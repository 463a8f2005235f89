#include "runtime/device/cuda/cuda_context.h"

#include "absl/memory/memory.h"
#include "base/status.h"

namespace sluice::device {

absl::StatusOr<std::unique_ptr<CudaContextShare>> CudaContextShare::Take(CudaApi& api,
                                                                         CudaHealth& health,
                                                                         int ordinal) {
  CudaContext context = nullptr;
  SLUICE_RETURN_IF_ERROR(
      health.Check(api.RetainContext(ordinal, &context), "cuDevicePrimaryCtxRetain"));
  return absl::WrapUnique(new CudaContextShare(api, health, ordinal, context));
}

CudaContextShare::~CudaContextShare() {
  // The driver may be gone already at the end of a process: nothing is left to be done then.
  api_.ReleaseContext(ordinal_);
}

ScopedCudaContext::ScopedCudaContext(const CudaContextShare& share)
    : share_(share),
      status_(share.Check(share.api().PushContext(share.context()), "cuCtxPushCurrent")) {}

ScopedCudaContext::~ScopedCudaContext() {
  if (status_.ok()) share_.api().PopContext();
}

}  // namespace sluice::device
