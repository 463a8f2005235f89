#pragma once

#include <cudaTypedefs.h>

#include "absl/status/statusor.h"

namespace sluice::device {

/// Functions of the driver, each by the version of its arguments.
struct DriverCalls {
  PFN_cuGetErrorName_v6000 get_error_name = nullptr;
  PFN_cuInit_v2000 init = nullptr;
  PFN_cuDriverGetVersion_v2020 driver_version = nullptr;
  PFN_cuDeviceGetCount_v2000 device_count = nullptr;
  PFN_cuDeviceGet_v2000 device_get = nullptr;
  PFN_cuDeviceGetName_v2000 device_name = nullptr;
  PFN_cuDeviceGetUuid_v11040 device_uuid = nullptr;
  PFN_cuDeviceGetPCIBusId_v4010 device_pci = nullptr;
  PFN_cuDeviceTotalMem_v3020 device_memory = nullptr;
  PFN_cuDeviceGetAttribute_v2000 device_attribute = nullptr;
  PFN_cuDevicePrimaryCtxRetain_v7000 retain_context = nullptr;
  PFN_cuDevicePrimaryCtxRelease_v11000 release_context = nullptr;
  PFN_cuCtxPushCurrent_v4000 push_context = nullptr;
  PFN_cuCtxPopCurrent_v4000 pop_context = nullptr;
  PFN_cuMemGetInfo_v3020 free_memory = nullptr;
  PFN_cuThreadExchangeStreamCaptureMode_v10010 capture_mode = nullptr;
  PFN_cuStreamCreate_v2000 stream_create = nullptr;
  PFN_cuStreamDestroy_v4000 stream_destroy = nullptr;
  PFN_cuStreamSynchronize_v2000 stream_synchronize = nullptr;
  PFN_cuStreamWaitEvent_v3020 stream_wait_event = nullptr;
  PFN_cuStreamIsCapturing_v10000 stream_is_capturing = nullptr;
  PFN_cuEventCreate_v2000 event_create = nullptr;
  PFN_cuEventDestroy_v4000 event_destroy = nullptr;
  PFN_cuEventRecord_v2000 event_record = nullptr;
  PFN_cuEventQuery_v2000 event_query = nullptr;
  PFN_cuMemcpyHtoDAsync_v3020 copy_in = nullptr;
  PFN_cuMemcpyDtoHAsync_v3020 copy_out = nullptr;
  /// Batch of copies; null where the driver lacks the call.
  PFN_cuMemcpyBatchAsync_v13000 copy_batch = nullptr;
  PFN_cuMemsetD8Async_v3020 fill = nullptr;
  PFN_cuMemHostRegister_v6050 host_register = nullptr;
  PFN_cuMemHostUnregister_v4000 host_unregister = nullptr;
  PFN_cuPointerGetAttribute_v4000 pointer_attribute = nullptr;
  PFN_cuMemGetAllocationGranularity_v10020 granularity = nullptr;
  PFN_cuMemCreate_v10020 memory_create = nullptr;
  PFN_cuMemRelease_v10020 memory_release = nullptr;
  PFN_cuMemAddressReserve_v10020 address_reserve = nullptr;
  PFN_cuMemAddressFree_v10020 address_free = nullptr;
  PFN_cuMemMap_v10020 memory_map = nullptr;
  PFN_cuMemUnmap_v10020 memory_unmap = nullptr;
  PFN_cuMemSetAccess_v10020 set_access = nullptr;
};

/// Looks each function up in the driver's library. The library is loaded here and never linked.
/// Errors: FailedPrecondition that names the driver or the function that is missing.
absl::StatusOr<DriverCalls> FindDriverCalls();

}  // namespace sluice::device
