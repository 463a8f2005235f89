#include "runtime/device/cuda/driver_api.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/device/cuda/driver_calls.h"

namespace sluice::device {
namespace {

CUdeviceptr ToDriver(const std::byte* address) { return reinterpret_cast<CUdeviceptr>(address); }
CUstream ToDriver(CudaStream stream) { return reinterpret_cast<CUstream>(stream); }
CUevent ToDriver(CudaEvent event) { return reinterpret_cast<CUevent>(event); }

CUmemAllocationProp MemoryOf(int ordinal) {
  CUmemAllocationProp memory{};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  return memory;
}

class DriverApi : public CudaApi {
 public:
  explicit DriverApi(const DriverCalls& calls) : calls_(calls) {}

  std::string ErrorName(CudaCode code) const override {
    const char* name = nullptr;
    calls_.get_error_name(static_cast<CUresult>(code), &name);
    return name != nullptr ? name : "CUDA error " + std::to_string(code);
  }

  CudaCode CountDevices(int* count) override { return calls_.device_count(count); }
  CudaCode DescribeDevice(int ordinal, CudaDeviceFacts* facts) override;
  CudaCode RetainContext(int ordinal, CudaContext* context) override {
    CUdevice device = 0;
    if (const CUresult error = calls_.device_get(&device, ordinal)) return error;
    return calls_.retain_context(reinterpret_cast<CUcontext*>(context), device);
  }
  CudaCode ReleaseContext(int ordinal) override {
    CUdevice device = 0;
    if (const CUresult error = calls_.device_get(&device, ordinal)) return error;
    return calls_.release_context(device);
  }
  CudaCode PushContext(CudaContext context) override {
    return calls_.push_context(reinterpret_cast<CUcontext>(context));
  }
  CudaCode PopContext() override {
    CUcontext popped = nullptr;
    return calls_.pop_context(&popped);
  }
  CudaCode FreeMemory(std::uint64_t* free_bytes, std::uint64_t* all_bytes) override {
    return calls_.free_memory(free_bytes, all_bytes);
  }
  CudaCode ExchangeCaptureMode(CudaCaptureMode* mode) override {
    auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
    const CUresult error = calls_.capture_mode(&exchanged);
    *mode = static_cast<CudaCaptureMode>(exchanged);
    return error;
  }

  CudaCode CreateStream(CudaStream* stream) override {
    return calls_.stream_create(reinterpret_cast<CUstream*>(stream), CU_STREAM_NON_BLOCKING);
  }
  CudaCode DestroyStream(CudaStream stream) override {
    return calls_.stream_destroy(ToDriver(stream));
  }
  CudaCode SynchronizeStream(CudaStream stream) override {
    return calls_.stream_synchronize(ToDriver(stream));
  }
  CudaCode WaitEvent(CudaStream stream, CudaEvent event) override {
    return calls_.stream_wait_event(ToDriver(stream), ToDriver(event), 0);
  }
  CudaCode IsCapturing(CudaStream stream, bool* capturing) override {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult error = calls_.stream_is_capturing(ToDriver(stream), &status);
    *capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return error;
  }

  CudaCode CreateEvent(CudaEvent* event) override {
    return calls_.event_create(reinterpret_cast<CUevent*>(event), CU_EVENT_DISABLE_TIMING);
  }
  CudaCode DestroyEvent(CudaEvent event) override { return calls_.event_destroy(ToDriver(event)); }
  CudaCode RecordEvent(CudaEvent event, CudaStream stream) override {
    return calls_.event_record(ToDriver(event), ToDriver(stream));
  }
  CudaCode QueryEvent(CudaEvent event) override { return calls_.event_query(ToDriver(event)); }

  CudaCode CopyIn(const CudaCopy& copy, CudaStream stream) override {
    return calls_.copy_in(ToDriver(copy.to), copy.from, copy.bytes, ToDriver(stream));
  }
  CudaCode CopyOut(const CudaCopy& copy, CudaStream stream) override {
    return calls_.copy_out(copy.to, ToDriver(copy.from), copy.bytes, ToDriver(stream));
  }
  CudaCode CopyBatch(std::span<const CudaCopy> copies, CudaStream stream) override;
  CudaCode Fill(std::byte* to,
                std::uint8_t value,
                std::uint64_t bytes,
                CudaStream stream) override {
    return calls_.fill(ToDriver(to), value, bytes, ToDriver(stream));
  }

  CudaCode RegisterHost(std::byte* address, std::uint64_t bytes) override {
    return calls_.host_register(address, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  }
  CudaCode UnregisterHost(std::byte* address) override { return calls_.host_unregister(address); }
  CudaCode IsRegistered(const std::byte* address, bool* registered) override {
    CUmemorytype type{};
    const CUresult error =
        calls_.pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ToDriver(address));
    *registered = error == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST;
    // The driver does not know memory that was never registered.
    return error == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : error;
  }

  CudaCode CreateMemory(int ordinal, std::uint64_t bytes, CudaMemory* memory) override {
    const CUmemAllocationProp kind = MemoryOf(ordinal);
    CUmemGenericAllocationHandle handle = 0;
    const CUresult error = calls_.memory_create(&handle, bytes, &kind, 0);
    *memory = handle;
    return error;
  }
  CudaCode ReleaseMemory(CudaMemory memory) override { return calls_.memory_release(memory); }
  CudaCode ReserveAddresses(std::uint64_t bytes, std::byte** address) override {
    CUdeviceptr reserved = 0;
    const CUresult error = calls_.address_reserve(&reserved, bytes, 0, 0, 0);
    *address = reinterpret_cast<std::byte*>(reserved);
    return error;
  }
  CudaCode FreeAddresses(std::byte* address, std::uint64_t bytes) override {
    return calls_.address_free(ToDriver(address), bytes);
  }
  CudaCode MapMemory(std::byte* address, std::uint64_t bytes, CudaMemory memory) override {
    return calls_.memory_map(ToDriver(address), bytes, 0, memory, 0);
  }
  CudaCode UnmapMemory(std::byte* address, std::uint64_t bytes) override {
    return calls_.memory_unmap(ToDriver(address), bytes);
  }
  CudaCode AllowAccess(std::byte* address, std::uint64_t bytes, int ordinal) override {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return calls_.set_access(ToDriver(address), bytes, &access, 1);
  }

 private:
  /// Keeps the first error.
  CUresult Describe(CUdevice device, CudaDeviceFacts* facts) const;
  CUresult DescribeMemory(int ordinal, CUdevice device, CudaDeviceFacts* facts) const;
  CUresult Has(CUdevice device, CUdevice_attribute attribute, bool* value) const {
    int number = 0;
    const CUresult error = calls_.device_attribute(&number, attribute, device);
    *value = number != 0;
    return error;
  }

  const DriverCalls calls_;
};

CudaCode DriverApi::DescribeDevice(int ordinal, CudaDeviceFacts* facts) {
  CUdevice device = 0;
  if (const CUresult error = calls_.device_get(&device, ordinal)) return error;
  if (const CUresult error = Describe(device, facts)) return error;
  return DescribeMemory(ordinal, device, facts);
}

CUresult DriverApi::Describe(CUdevice device, CudaDeviceFacts* facts) const {
  std::array<char, 256> text{};
  if (const CUresult error = calls_.device_name(text.data(), text.size(), device)) return error;
  facts->name = text.data();
  if (const CUresult error = calls_.device_pci(text.data(), text.size(), device)) return error;
  facts->pci_address = text.data();
  CUuuid uuid{};
  if (const CUresult error = calls_.device_uuid(&uuid, device)) return error;
  std::memcpy(facts->uuid.data(), uuid.bytes, facts->uuid.size());
  if (const CUresult error = calls_.driver_version(&facts->driver_version)) return error;
  if (const CUresult error = calls_.device_attribute(
          &facts->compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)) {
    return error;
  }
  return calls_.device_attribute(
      &facts->compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

CUresult DriverApi::DescribeMemory(int ordinal, CUdevice device, CudaDeviceFacts* facts) const {
  std::size_t bytes = 0;
  if (const CUresult error = calls_.device_memory(&bytes, device)) return error;
  facts->memory_bytes = bytes;
  const std::pair<CUdevice_attribute, bool*> abilities[] = {
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &facts->maps_memory},
      {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, &facts->registers_memory}};
  for (const auto& [attribute, value] : abilities) {
    if (const CUresult error = Has(device, attribute, value)) return error;
  }
  if (!facts->maps_memory) return CUDA_SUCCESS;
  const CUmemAllocationProp kind = MemoryOf(ordinal);
  const CUresult error = calls_.granularity(&bytes, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  facts->granularity = bytes;
  return error;
}

CudaCode DriverApi::CopyBatch(std::span<const CudaCopy> copies, CudaStream stream) {
  if (calls_.copy_batch == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  std::vector<CUdeviceptr> targets;
  std::vector<CUdeviceptr> sources;
  std::vector<std::size_t> sizes;
  for (const CudaCopy& copy : copies) {
    targets.push_back(ToDriver(copy.to));
    sources.push_back(ToDriver(copy.from));
    sizes.push_back(copy.bytes);
  }
  CUmemcpyAttributes ordered{};
  ordered.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  std::size_t first = 0;
  return calls_.copy_batch(targets.data(),
                           sources.data(),
                           sizes.data(),
                           copies.size(),
                           &ordered,
                           &first,
                           1,
                           ToDriver(stream));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaApi>> LoadCudaApi() {
  SLUICE_ASSIGN_OR_RETURN(const DriverCalls calls, FindDriverCalls());
  auto api = std::make_unique<DriverApi>(calls);
  const CUresult started = calls.init(0);
  if (started == CUDA_SUCCESS || started == CUDA_ERROR_NO_DEVICE) return api;
  return absl::FailedPreconditionError("the NVIDIA driver does not start: " +
                                       api->ErrorName(started));
}

}  // namespace sluice::device
