#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/device/cuda/cuda_api.h"
#include "tests/support/cuda/fake_state.h"

namespace sluice::testing {

/// CudaApi on a FakeState. The real driver's refusals are here, its effects in FakeState.
class FakeDriver : public device::CudaApi {
 public:
  explicit FakeDriver(FakeState& state) : state_(state) {}

  std::string ErrorName(device::CudaCode code) const override;

  device::CudaCode CountDevices(int* count) override;
  device::CudaCode DescribeDevice(int ordinal, device::CudaDeviceFacts* facts) override;
  device::CudaCode RetainContext(int ordinal, device::CudaContext* context) override;
  device::CudaCode ReleaseContext(int ordinal) override;
  device::CudaCode PushContext(device::CudaContext context) override;
  device::CudaCode PopContext() override;
  device::CudaCode FreeMemory(std::uint64_t* free_bytes, std::uint64_t* all_bytes) override;
  device::CudaCode ExchangeCaptureMode(device::CudaCaptureMode* mode) override;

  device::CudaCode CreateStream(device::CudaStream* stream) override;
  device::CudaCode DestroyStream(device::CudaStream stream) override;
  device::CudaCode SynchronizeStream(device::CudaStream stream) override;
  device::CudaCode WaitEvent(device::CudaStream stream, device::CudaEvent event) override;
  device::CudaCode IsCapturing(device::CudaStream stream, bool* capturing) override;

  device::CudaCode CreateEvent(device::CudaEvent* event) override;
  device::CudaCode DestroyEvent(device::CudaEvent event) override;
  device::CudaCode RecordEvent(device::CudaEvent event, device::CudaStream stream) override;
  device::CudaCode QueryEvent(device::CudaEvent event) override;

  device::CudaCode CopyIn(const device::CudaCopy& copy, device::CudaStream stream) override;
  device::CudaCode CopyOut(const device::CudaCopy& copy, device::CudaStream stream) override;
  device::CudaCode CopyBatch(std::span<const device::CudaCopy> copies,
                             device::CudaStream stream) override;
  device::CudaCode Fill(std::byte* to,
                        std::uint8_t value,
                        std::uint64_t bytes,
                        device::CudaStream stream) override;

  device::CudaCode RegisterHost(std::byte* address, std::uint64_t bytes) override;
  device::CudaCode UnregisterHost(std::byte* address) override;
  device::CudaCode IsRegistered(const std::byte* address, bool* registered) override;

  device::CudaCode CreateMemory(int ordinal,
                                std::uint64_t bytes,
                                device::CudaMemory* memory) override;
  device::CudaCode ReleaseMemory(device::CudaMemory memory) override;
  device::CudaCode ReserveAddresses(std::uint64_t bytes, std::byte** address) override;
  device::CudaCode FreeAddresses(std::byte* address, std::uint64_t bytes) override;
  device::CudaCode MapMemory(std::byte* address,
                             std::uint64_t bytes,
                             device::CudaMemory memory) override;
  device::CudaCode UnmapMemory(std::byte* address, std::uint64_t bytes) override;
  device::CudaCode AllowAccess(std::byte* address, std::uint64_t bytes, int ordinal) override;

 private:
  struct Copies;

  device::CudaCode BeginMapping(FakeEntry entry);
  device::CudaCode Copy(FakeEntry entry,
                        std::span<const device::CudaCopy> copies,
                        device::CudaStream stream);

  FakeState& state_;
};

}  // namespace sluice::testing
