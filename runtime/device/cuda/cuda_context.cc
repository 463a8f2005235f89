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
  Check(api_.ReleaseContext(ordinal_), "cuDevicePrimaryCtxRelease").IgnoreError();
}

ScopedCudaContext::ScopedCudaContext(const CudaContextShare& share)
    : share_(share),
      status_(share.Check(share.api().PushContext(share.context()), "cuCtxPushCurrent")) {
  if (!status_.ok()) return;
  status_ = Exchange();
  if (!status_.ok()) Pop();
}

ScopedCudaContext::~ScopedCudaContext() {
  if (!status_.ok()) return;
  // A mode that cannot be given back only allows the thread more.
  Exchange().IgnoreError();
  Pop();
}

absl::Status ScopedCudaContext::Exchange() {
  return share_.Check(share_.api().ExchangeCaptureMode(&mode_),
                      "cuThreadExchangeStreamCaptureMode");
}

void ScopedCudaContext::Pop() {
  // The thread's own context stays below where the driver refuses.
  share_.Check(share_.api().PopContext(), "cuCtxPopCurrent").IgnoreError();
}

}  // namespace sluice::device
