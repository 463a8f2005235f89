#include "runtime/device/cuda/driver_calls.h"

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::device {
namespace {

/// Finds functions one after another and keeps the first error.
class Finder {
 public:
  /// `version`: the version of CUDA that gave the function these arguments.
  template <typename Function>
  void Find(const char* name, unsigned version, Function* function) {
    if (!status_.ok()) return;
    status_ = FindAny(name, version, reinterpret_cast<void**>(function));
  }
  /// Leaves the function null where the driver lacks it.
  template <typename Function>
  void FindOptional(const char* name, unsigned version, Function* function) {
    if (!status_.ok()) return;
    if (!FindAny(name, version, reinterpret_cast<void**>(function)).ok()) *function = nullptr;
  }
  const absl::Status& status() const { return status_; }

 private:
  static absl::Status FindAny(const char* name, unsigned version, void** function) {
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, function, version, cudaEnableLegacyStream, &found);
    if (error != cudaSuccess) {
      cudaGetLastError();  // the error is reported here, and is no later call's
      return absl::FailedPreconditionError(
          fmt::format("no NVIDIA driver that fits: {}; CUDA needs driver 580 or newer",
                      cudaGetErrorString(error)));
    }
    if (found == cudaDriverEntryPointSuccess) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("the NVIDIA driver has no {}; CUDA needs driver 580 or newer", name));
  }

  absl::Status status_;
};

void FindDevices(Finder& finder, DriverCalls& calls) {
  finder.Find("cuGetErrorName", 6000, &calls.get_error_name);
  finder.Find("cuInit", 2000, &calls.init);
  finder.Find("cuDriverGetVersion", 2020, &calls.driver_version);
  finder.Find("cuDeviceGetCount", 2000, &calls.device_count);
  finder.Find("cuDeviceGet", 2000, &calls.device_get);
  finder.Find("cuDeviceGetName", 2000, &calls.device_name);
  finder.Find("cuDeviceGetUuid", 11040, &calls.device_uuid);
  finder.Find("cuDeviceGetPCIBusId", 4010, &calls.device_pci);
  finder.Find("cuDeviceTotalMem", 3020, &calls.device_memory);
  finder.Find("cuDeviceGetAttribute", 2000, &calls.device_attribute);
  finder.Find("cuDevicePrimaryCtxRetain", 7000, &calls.retain_context);
  finder.Find("cuDevicePrimaryCtxRelease", 11000, &calls.release_context);
  finder.Find("cuCtxPushCurrent", 4000, &calls.push_context);
  finder.Find("cuCtxPopCurrent", 4000, &calls.pop_context);
  finder.Find("cuMemGetInfo", 3020, &calls.free_memory);
}

void FindStreams(Finder& finder, DriverCalls& calls) {
  finder.Find("cuThreadExchangeStreamCaptureMode", 10010, &calls.capture_mode);
  finder.Find("cuStreamCreate", 2000, &calls.stream_create);
  finder.Find("cuStreamDestroy", 4000, &calls.stream_destroy);
  finder.Find("cuStreamSynchronize", 2000, &calls.stream_synchronize);
  finder.Find("cuStreamWaitEvent", 3020, &calls.stream_wait_event);
  finder.Find("cuStreamIsCapturing", 10000, &calls.stream_is_capturing);
  finder.Find("cuEventCreate", 2000, &calls.event_create);
  finder.Find("cuEventDestroy", 4000, &calls.event_destroy);
  finder.Find("cuEventRecord", 2000, &calls.event_record);
  finder.Find("cuEventQuery", 2000, &calls.event_query);
  finder.Find("cuMemcpyHtoDAsync", 3020, &calls.copy_in);
  finder.Find("cuMemcpyDtoHAsync", 3020, &calls.copy_out);
  finder.FindOptional("cuMemcpyBatchAsync", 13000, &calls.copy_batch);
  finder.Find("cuMemsetD8Async", 3020, &calls.fill);
}

void FindMemory(Finder& finder, DriverCalls& calls) {
  finder.Find("cuMemHostRegister", 6050, &calls.host_register);
  finder.Find("cuMemHostUnregister", 4000, &calls.host_unregister);
  finder.Find("cuPointerGetAttribute", 4000, &calls.pointer_attribute);
  finder.Find("cuMemGetAllocationGranularity", 10020, &calls.granularity);
  finder.Find("cuMemCreate", 10020, &calls.memory_create);
  finder.Find("cuMemRelease", 10020, &calls.memory_release);
  finder.Find("cuMemAddressReserve", 10020, &calls.address_reserve);
  finder.Find("cuMemAddressFree", 10020, &calls.address_free);
  finder.Find("cuMemMap", 10020, &calls.memory_map);
  finder.Find("cuMemUnmap", 10020, &calls.memory_unmap);
  finder.Find("cuMemSetAccess", 10020, &calls.set_access);
}

}  // namespace

absl::StatusOr<DriverCalls> FindDriverCalls() {
  DriverCalls calls;
  Finder finder;
  FindDevices(finder, calls);
  FindStreams(finder, calls);
  FindMemory(finder, calls);
  SLUICE_RETURN_IF_ERROR(finder.status());
  return calls;
}

}  // namespace sluice::device
