// Host memory, physical memory and addresses of the fake driver.

#include "tests/support/cuda/fake_driver.h"

namespace sluice::testing {

using device::CudaCode;
using device::CudaMemory;
using device::kCudaNotSupported;
using device::kCudaSuccess;

CudaCode FakeDriver::RegisterHost(std::byte* address, std::uint64_t bytes) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.BeginUnsafe(FakeEntry::kRegisterHost, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  if (!state_.options.facts.registers_memory) {
    return kCudaNotSupported;
  }
  if (state_.registrations_passing.fetch_sub(1) <= 0) {
    state_.held_registrations.wait(1);
  }
  return state_.space.Contains(address) ? device::kCudaInvalidValue
                                        : state_.registrations.Add(address, bytes);
}

CudaCode FakeDriver::UnregisterHost(std::byte* address) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.BeginUnsafe(FakeEntry::kUnregisterHost, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  if (!state_.registrations.Has(address)) {
    return device::kCudaNotRegistered;
  }
  state_.WaitForAllWork();
  const CudaCode removed = state_.registrations.Remove(address);
  return removed != kCudaSuccess ? removed : context->Error();
}

CudaCode FakeDriver::IsRegistered(const std::byte* address, bool* registered) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kIsRegistered, &context);
  if (code == kCudaSuccess) {
    *registered = state_.registrations.Find(address, 1) == FakeRegistrations::Cover::kWhole;
  }
  return code;
}

CudaCode FakeDriver::BeginMapping(FakeEntry entry) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.BeginUnsafe(entry, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  return state_.options.facts.maps_memory ? kCudaSuccess : kCudaNotSupported;
}

CudaCode FakeDriver::CreateMemory(int ordinal, std::uint64_t bytes, CudaMemory* memory) {
  const CudaCode code = BeginMapping(FakeEntry::kCreateMemory);
  return code != kCudaSuccess ? code : state_.space.Create(ordinal, bytes, memory);
}

CudaCode FakeDriver::ReleaseMemory(CudaMemory memory) {
  const CudaCode code = BeginMapping(FakeEntry::kReleaseMemory);
  return code != kCudaSuccess ? code : state_.space.Release(memory);
}

CudaCode FakeDriver::ReserveAddresses(std::uint64_t bytes, std::byte** address) {
  const CudaCode code = BeginMapping(FakeEntry::kReserveAddresses);
  return code != kCudaSuccess ? code : state_.space.Reserve(bytes, address);
}

CudaCode FakeDriver::FreeAddresses(std::byte* address, std::uint64_t bytes) {
  const CudaCode code = BeginMapping(FakeEntry::kFreeAddresses);
  return code != kCudaSuccess ? code : state_.space.Free(address, bytes);
}

CudaCode FakeDriver::MapMemory(std::byte* address, std::uint64_t bytes, CudaMemory memory) {
  const CudaCode code = BeginMapping(FakeEntry::kMapMemory);
  return code != kCudaSuccess ? code : state_.space.Map(address, bytes, memory);
}

CudaCode FakeDriver::UnmapMemory(std::byte* address, std::uint64_t bytes) {
  const CudaCode code = BeginMapping(FakeEntry::kUnmapMemory);
  return code != kCudaSuccess ? code : state_.space.Unmap(address, bytes);
}

CudaCode FakeDriver::AllowAccess(std::byte* address, std::uint64_t bytes, int ordinal) {
  const CudaCode code = BeginMapping(FakeEntry::kAllowAccess);
  return code != kCudaSuccess ? code : state_.space.Allow(address, bytes, ordinal);
}

}  // namespace sluice::testing
