#include "runtime/device/cuda/cuda_events.h"

#include "base/status.h"

namespace sluice::device {

void CudaEventPool::Clear() {
  // Nobody waits for an event that the driver keeps.
  for (const CudaEvent event : free_) {
    share_.Check(share_.api().DestroyEvent(event), "cuEventDestroy").IgnoreError();
  }
  free_.clear();
}

absl::StatusOr<CudaEvent> CudaEventPool::Record(CudaStream stream) {
  if (free_.empty()) {
    CudaEvent made = nullptr;
    SLUICE_RETURN_IF_ERROR(share_.Check(share_.api().CreateEvent(&made), "cuEventCreate"));
    free_.push_back(made);
  }
  const CudaEvent event = free_.back();
  SLUICE_RETURN_IF_ERROR(share_.Check(share_.api().RecordEvent(event, stream), "cuEventRecord"));
  free_.pop_back();
  return event;
}

absl::StatusOr<bool> CudaEventPool::IsDone(CudaEvent event) {
  const CudaCode code = share_.api().QueryEvent(event);
  if (code == kCudaNotReady) return false;
  SLUICE_RETURN_IF_ERROR(share_.Check(code, "cuEventQuery"));
  return true;
}

}  // namespace sluice::device
