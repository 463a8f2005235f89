// Devices, contexts and errors of the fake driver.

#include "tests/support/cuda/fake_driver.h"

#include <utility>

#include "fmt/format.h"

namespace sluice::testing {

using device::CudaCode;
using device::kCudaInvalidContext;
using device::kCudaSuccess;

std::string FakeDriver::ErrorName(CudaCode code) const {
  switch (code) {
    case kCudaSuccess:
      return "CUDA_SUCCESS";
    case device::kCudaInvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case device::kCudaOutOfMemory:
      return "CUDA_ERROR_OUT_OF_MEMORY";
    case device::kCudaDeinitialized:
      return "CUDA_ERROR_DEINITIALIZED";
    case device::kCudaNoDevice:
      return "CUDA_ERROR_NO_DEVICE";
    case kCudaInvalidContext:
      return "CUDA_ERROR_INVALID_CONTEXT";
    case device::kCudaInvalidHandle:
      return "CUDA_ERROR_INVALID_HANDLE";
    case device::kCudaNotReady:
      return "CUDA_ERROR_NOT_READY";
    case device::kCudaIllegalAddress:
      return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case device::kCudaAlreadyRegistered:
      return "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
    case device::kCudaNotRegistered:
      return "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED";
    case device::kCudaNotSupported:
      return "CUDA_ERROR_NOT_SUPPORTED";
    case device::kCudaCaptureUnsupported:
      return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case device::kCudaCaptureInvalidated:
      return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    default:
      return fmt::format("CUDA_ERROR_{}", code);
  }
}

CudaCode FakeDriver::CountDevices(int* count) {
  const CudaCode code = state_.Count(FakeEntry::kCountDevices);
  if (code != kCudaSuccess) {
    return code;
  }
  *count = state_.options.devices;
  return state_.options.count_code;
}

CudaCode FakeDriver::DescribeDevice(int ordinal, device::CudaDeviceFacts* facts) {
  const CudaCode code = state_.Count(FakeEntry::kDescribeDevice);
  if (code != kCudaSuccess) {
    return code;
  }
  if (state_.context(ordinal) == nullptr) {
    return kFakeInvalidDevice;
  }
  *facts = state_.options.facts;
  facts->uuid.back() = static_cast<std::uint8_t>(ordinal);
  facts->pci_address = fmt::format("0000:{:02x}:00.0", ordinal);
  return kCudaSuccess;
}

CudaCode FakeDriver::RetainContext(int ordinal, device::CudaContext* context) {
  const CudaCode code = state_.Count(FakeEntry::kRetainContext);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeContext* found = state_.context(ordinal);
  if (found == nullptr) {
    return kFakeInvalidDevice;
  }
  found->shares().fetch_add(1);
  *context = reinterpret_cast<device::CudaContext>(found);
  return kCudaSuccess;
}

CudaCode FakeDriver::ReleaseContext(int ordinal) {
  const CudaCode code = state_.Count(FakeEntry::kReleaseContext);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeContext* found = state_.context(ordinal);
  if (found == nullptr) {
    return kFakeInvalidDevice;
  }
  if (found->shares().load() == 0) {
    return kCudaInvalidContext;
  }
  found->shares().fetch_sub(1);
  return kCudaSuccess;
}

CudaCode FakeDriver::PushContext(device::CudaContext context) {
  const CudaCode code = state_.Count(FakeEntry::kPushContext);
  if (code != kCudaSuccess) {
    return code;
  }
  auto* pushed = reinterpret_cast<FakeContext*>(context);
  if (pushed == nullptr || pushed->shares().load() == 0) {
    return kCudaInvalidContext;
  }
  state_.thread().contexts.push_back(pushed);
  return kCudaSuccess;
}

CudaCode FakeDriver::PopContext() {
  const CudaCode code = state_.Count(FakeEntry::kPopContext);
  if (code != kCudaSuccess) {
    return code;
  }
  auto& contexts = state_.thread().contexts;
  if (contexts.empty()) {
    return kCudaInvalidContext;
  }
  contexts.pop_back();
  return kCudaSuccess;
}

CudaCode FakeDriver::FreeMemory(std::uint64_t* free_bytes, std::uint64_t* all_bytes) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kFreeMemory, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  *all_bytes = state_.options.facts.memory_bytes;
  *free_bytes = *all_bytes - state_.space.UsedBytes(context->ordinal());
  return kCudaSuccess;
}

CudaCode FakeDriver::ExchangeCaptureMode(device::CudaCaptureMode* mode) {
  const CudaCode code = state_.Count(FakeEntry::kExchangeCaptureMode);
  if (code != kCudaSuccess) {
    return code;
  }
  std::swap(state_.thread().mode, *mode);
  return kCudaSuccess;
}

}  // namespace sluice::testing
